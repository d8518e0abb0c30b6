// The registry: names to handlers. Entries are never freed, as programs keep pointers to them; a
// second registration under a name replaces the handler of the first, at once and as a whole, for
// programs that run as well.
#include "custom_call.h"

#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <initializer_list>
#include <mutex>
#include <new>

#include "float_mode.h"
#include "fork.h"
#include "library_calls.h"

// The embeddable runtime (rt/) has these only where a program asks for linear algebra.
namespace hloom {
[[gnu::weak]] const BuiltIn* linalg_calls();
[[gnu::weak]] const BuiltIn* library_calls();
}  // namespace hloom

struct hl_custom_call {
  struct Target {
    hl_handler handler;
    void* user;
    int64_t stages;
    bool is_of_host;  // it computes in the host's floating-point mode
  };
  char* name;
  std::atomic<const Target*> target;
  hl_custom_call* next;
};

namespace hloom {
namespace {

std::mutex& registry_mutex() {
  static std::mutex& mutex = []() -> std::mutex& {
    auto* made = new std::mutex;
    hloom::free_in_forks(made->native_handle());
    return *made;
  }();
  return mutex;
}

hl_custom_call*& first() {
  static hl_custom_call* list = nullptr;
  return list;
}

hl_custom_call* found(const char* name) {
  for (hl_custom_call* c = first(); c; c = c->next)
    if (!strcmp(c->name, name)) return c;
  return nullptr;
}

int32_t add(const char* name, const hl_custom_call::Target& given) {
  // What was there before stays: somebody may be calling it.
  auto* target = new (std::nothrow) hl_custom_call::Target{given};
  if (!target) return HL_RESOURCE_EXHAUSTED;
  if (hl_custom_call* c = found(name)) {
    c->target.store(target, std::memory_order_release);
    return HL_OK;
  }
  char* copy = strdup(name);
  auto* c = copy ? new (std::nothrow) hl_custom_call{copy, target, first()} : nullptr;
  if (!c) {
    free(copy);
    delete target;
    return HL_RESOURCE_EXHAUSTED;
  }
  first() = c;
  return HL_OK;
}

void add_built_in() {
  static bool done = false;
  if (done) return;
  done = true;
  for (auto* calls : {&linalg_calls, &library_calls}) {
    if (calls == nullptr) continue;
    for (const BuiltIn* b = calls(); b->name; b++)
      if (!found(b->name)) add(b->name, {b->handler, nullptr, 1 << HL_STAGE_EXECUTE, false});
  }
}

}  // namespace
}  // namespace hloom

HL_API int32_t hl_custom_call_register(const char* name, hl_handler handler, void* user,
                                       int64_t stages) {
  std::lock_guard<std::mutex> lock(hloom::registry_mutex());
  return hloom::add(name, {handler, user, stages, true});
}

HL_API const hl_custom_call* hl_custom_call_find(const char* name) {
  std::lock_guard<std::mutex> lock(hloom::registry_mutex());
  hloom::add_built_in();
  return hloom::found(name);
}

HL_API int32_t hl_custom_call_run(hl_context* ctx, const hl_custom_call* call,
                                  const hl_call_frame* frame) {
  if (!call) return hl_set_error(ctx, HL_NOT_FOUND, "custom call without a handler");
  const hl_custom_call::Target* target = call->target.load(std::memory_order_acquire);
  if (!(target->stages >> frame->stage & 1)) return HL_OK;
  hl_call_frame own = *frame;
  own.user = target->user;
  if (!target->is_of_host) return target->handler(ctx, &own);
  uint64_t mode = hloom::set_float_mode(hloom::kHostFloatMode);
  int32_t status = target->handler(ctx, &own);
  hloom::set_float_mode(mode);
  return status;
}

// Whether the calls are to be in the order of the program, though nothing is said of effects.
HL_API int32_t hl_custom_call_keeps_order(const hl_custom_call* call) {
  return call != nullptr &&
         (call->target.load(std::memory_order_acquire)->stages & HL_HANDLER_IN_ORDER) != 0;
}

// Whether the calls go to this function now.
HL_API int32_t hl_custom_call_uses(const hl_custom_call* call, hl_handler handler) {
  return call->target.load(std::memory_order_acquire)->handler == handler;
}
