// The context of one execution: its errors, its end, its way to the host.
#include "context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#include "float_mode.h"
#include "host.h"

namespace hloom {

void cancel_tree(Context* context) {
  // Before its lanes: one that begins now looks here after it has forgotten what was asked earlier.
  __atomic_store_n(&context->cancel, 1, __ATOMIC_SEQ_CST);
  Lanes* lanes = context->lanes.load();
  if (lanes == nullptr) return;
  for (std::atomic<Context*>& lane : lanes->of)
    if (Context* inner = lane.load()) cancel_tree(inner);
}

Lanes* lanes_of(Context* context) {
  Lanes* lanes = context->lanes.load();
  if (lanes != nullptr) return lanes;
  lanes = static_cast<Lanes*>(calloc(1, sizeof(Lanes)));
  if (lanes == nullptr) return nullptr;
  lanes->used.store(uint64_t{1} << (kMostLanes - 1));
  // Two of its parts may meet the first lane at once.
  Lanes* known = nullptr;
  if (context->lanes.compare_exchange_strong(known, lanes)) return lanes;
  free(lanes);
  return known;
}

void end_lane(Context* context, int number) {
  context->lanes.load()->used.fetch_and(~(uint64_t{1} << number), std::memory_order_acq_rel);
}

Context* begin_lane(Context* context, int* place) {
  Lanes* lanes = lanes_of(context);
  if (lanes == nullptr) return nullptr;
  uint64_t used = lanes->used.load(std::memory_order_relaxed);
  uint64_t bit;
  do {
    bit = ~used & (used + 1);
    if (bit == 0) return nullptr;
  } while (!lanes->used.compare_exchange_weak(used, used | bit, std::memory_order_acq_rel));
  int number = *place = __builtin_ctzll(bit);
  Context* lane = lanes->of[number].load();
  if (lane == nullptr) {
    void* memory = calloc(1, sizeof(Context));
    if (memory == nullptr) {
      end_lane(context, number);
      return nullptr;
    }
    lane = new (memory) Context();
    lane->parent = context;
    lanes->of[number].store(lane);
  }
  __atomic_store_n(&lane->cancel, 0, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&context->cancel, __ATOMIC_SEQ_CST) != 0)
    __atomic_store_n(&lane->cancel, 1, __ATOMIC_SEQ_CST);
  lane->status = HL_OK;
  lane->message[0] = 0;
  lane->claimed.store(0, std::memory_order_relaxed);
  lane->in_region.store(0, std::memory_order_relaxed);
  lane->beside.store(1, std::memory_order_relaxed);
  lane->threads = context->threads;
  lane->device = context->device;
  lane->pool = context->pool;
  lane->arena = context->arena;
  lane->user = context->user;
  lane->rng = context->rng;
  lane->infeed = context->infeed;
  lane->outfeed = context->outfeed;
  lane->feed_timeout_ns = context->feed_timeout_ns;
  lane->host_functions = context->host_functions;
  lane->host_function_count = context->host_function_count;
  lane->call_sites = context->call_sites;
  lane->call_site_count = context->call_site_count;
  lane->run_id = context->run_id;
  lane->user_data = context->user_data;
  lane->transfers = context->transfers;
  lane->communicator = context->communicator;
  return lane;
}

void replace_error(Context* context, int32_t status, const Context* from) {
  memcpy(context->message, from->message, sizeof(context->message));
  if (context->message[0] == 0)
    snprintf(context->message, sizeof(context->message), "the program ended with status %d",
             status);
  context->claimed.store(1, std::memory_order_relaxed);
  __atomic_store_n(&context->status, status, __ATOMIC_RELEASE);
}

}  // namespace hloom

// The version of the ABI; changed when a signature or an offset changes.
HL_API int32_t hl_abi_version() { return 3; }

// A context for programs on this pool (null: one thread) and this arena (null: that of the
// process). Null: out of memory. A context runs one program at a time.
HL_API hl_context* hl_context_new(hl_pool* pool, hl_arena* arena) {
  void* memory = calloc(1, sizeof(hloom::Context));
  if (memory == nullptr) return nullptr;
  hloom::Context* context = new (memory) hloom::Context();
  context->pool = pool;
  context->arena = arena;
  context->threads = hloom::pool_threads(pool);
  context->feed_timeout_ns = -1;
  return context;
}

HL_API void hl_context_free(hl_context* context) {
  if (context == nullptr) return;
  if (hloom::Lanes* lanes = hloom::of(context)->lanes.load()) {
    for (std::atomic<hloom::Context*>& lane : lanes->of) hl_context_free(lane.load());
    free(lanes);
  }
  free(hloom::of(context));
}

// The context that hl_execute was called with, of whose execution this one is a part.
HL_API hl_context* hl_context_root(hl_context* context) {
  hloom::Context* inner = hloom::of(context);
  while (inner->parent != nullptr) inner = inner->parent;
  return inner;
}

// The first error's sentence, empty if there is none; valid until the next execution.
HL_API const char* hl_context_message(hl_context* context) { return hloom::of(context)->message; }

// What hl_call_host reaches; the table must outlive the context, and may hold nulls.
HL_API void hl_context_set_host_functions(hl_context* context, const hl_host_function* functions,
                                          int64_t count) {
  hloom::of(context)->host_functions = functions;
  hloom::of(context)->host_function_count = count;
}

HL_API void hl_context_set_rng(hl_context* context, hl_rng* rng) { hloom::of(context)->rng = rng; }

// Where hl_infeed takes from and hl_outfeed puts, and how long they wait (negative: for ever).
HL_API void hl_context_set_feeds(hl_context* context, hl_queue* infeed, hl_queue* outfeed,
                                 int64_t timeout_ns) {
  hloom::of(context)->infeed = infeed;
  hloom::of(context)->outfeed = outfeed;
  hloom::of(context)->feed_timeout_ns = timeout_ns;
}

// What the host gave to this execution under a type's number; null: nothing.
HL_API void* hl_context_user_data(hl_context* context, int64_t type_id) {
  const hloom::UserDataList* list = hloom::of(context)->user_data;
  for (int64_t k = 0; list != nullptr && k < list->count; ++k)
    if (list->entries[k].type_id == type_id) return list->entries[k].data;
  return nullptr;
}

// Asks the program that runs, or the next one, to stop. Any thread may.
HL_API void hl_cancel(hl_context* context) { hloom::cancel_tree(hloom::of(context)); }

// Records an error; the first one stays. `format` is that of printf. Returns `status`.
HL_API int32_t hl_set_error(hl_context* context, int32_t status, const char* format, ...) {
  hloom::Context* inner = hloom::of(context);
  if (status == HL_OK) return HL_OK;
  if (inner->claimed.exchange(1, std::memory_order_acq_rel) != 0) return status;
  va_list list;
  va_start(list, format);
  vsnprintf(inner->message, sizeof(inner->message), format, list);
  va_end(list);
  __atomic_store_n(&context->status, status, __ATOMIC_RELEASE);
  return status;
}

// Sets an error whose sentence is plain text: for hosts and for generated code.
HL_API int32_t hl_set_error_text(hl_context* context, int32_t status, const char* text) {
  return hl_set_error(context, status, "%s", text);
}

// Calls function `id` of the host. A status other than 0 is an error, also where the function has
// said no more about it.
HL_API int32_t hl_call_host(hl_context* context, int64_t id, void** buffers) {
  hloom::Context* inner = hloom::of(context);
  if (id < 0 || id >= inner->host_function_count || inner->host_functions[id] == nullptr)
    return hl_set_error(context, HL_NOT_FOUND, "the program calls host function %lld; %lld are set",
                        static_cast<long long>(id),
                        static_cast<long long>(inner->host_function_count));
  uint64_t mode = hloom::set_float_mode(hloom::kHostFloatMode);
  int32_t status = inner->host_functions[id](context, id, buffers);
  hloom::set_float_mode(mode);
  if (status != HL_OK)
    hl_set_error(context, status, "host function %lld failed with status %d",
                 static_cast<long long>(id), status);
  return status;
}

// Runs a program from its beginning to its end; returns its status, whose words are in
// hl_context_message. Errors of an earlier execution are forgotten.
HL_API int32_t hl_execute(hl_context* context, hl_main_function fn, void** buffers) {
  hloom::Context* inner = hloom::of(context);
  if (inner->running.exchange(1, std::memory_order_acquire) != 0) return HL_FAILED_PRECONDITION;
  context->status = HL_OK;
  inner->message[0] = 0;
  inner->claimed.store(0, std::memory_order_relaxed);
  inner->in_region.store(0, std::memory_order_relaxed);
  inner->beside.store(0, std::memory_order_relaxed);
  if (hloom::is_cancelled(context)) {
    hl_set_error(context, HL_CANCELLED, "cancelled before it began");
  } else {
    hl_pool* pool = context->threads > 1 ? context->pool : nullptr;
    if (pool != nullptr) {
      inner->slot_generation = hloom::pool_generation(pool);
      inner->slot = hloom::acquire_slot(pool);
    }
    uint64_t mode = hloom::set_float_mode(hloom::program_float_mode);
    int32_t status = inner->call_site_count != 0 ? hl_call_sites_begin(context, buffers) : HL_OK;
    if (status == HL_OK) status = fn(context, buffers);
    hloom::set_float_mode(mode);
    if (inner->slot != nullptr && inner->slot_generation == hloom::pool_generation(pool))
      hloom::release_slot(pool, inner->slot);
    inner->slot = nullptr;
    if (status == HL_CANCELLED) hl_set_error(context, status, "cancelled");
    hl_set_error(context, status, "the program ended with status %d", status);
  }
  int32_t status = __atomic_load_n(&context->status, __ATOMIC_ACQUIRE);
  __atomic_store_n(&context->cancel, 0, __ATOMIC_RELAXED);
  inner->running.store(0, std::memory_order_release);
  return status;
}

// Memory for programs and routines (see hl.h); a null arena is that of the process.

HL_API void* hl_alloc(hl_context* context, int64_t size_bytes) {
  void* memory = hl_arena_alloc_aligned(context->arena, size_bytes);
  if (memory == nullptr)
    hl_set_error(context, HL_RESOURCE_EXHAUSTED, "out of memory: %lld bytes asked for",
                 static_cast<long long>(size_bytes));
  return memory;
}

HL_API void hl_free(hl_context* context, void* memory) {
  if (hl_arena_free(context->arena, memory) != HL_OK)
    hl_set_error(context, HL_INTERNAL, "hl_free(%p): not a block that is in use", memory);
}
