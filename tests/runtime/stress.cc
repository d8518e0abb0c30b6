// Threads at work in the runtime all at once, for ThreadSanitizer: `make tsan`. Ends with 0 if every
// result is right; the sanitizer ends it with 66 if it saw a race.
#include <stdio.h>
#include <string.h>

#include <atomic>
#include <thread>
#include <vector>

#include "../../hloom/runtime/native/hl.h"

HL_API hl_pool* hl_pool_new(int32_t threads);
HL_API void hl_pool_free(hl_pool* pool);
HL_API hl_context* hl_context_new(hl_pool* pool, hl_arena* arena);
HL_API void hl_context_free(hl_context* context);
HL_API int32_t hl_execute(hl_context* context, hl_main_function fn, void** buffers);
HL_API void hl_cancel(hl_context* context);
HL_API void hl_context_set_rng(hl_context* context, hl_rng* rng);
HL_API void hl_context_set_feeds(hl_context* context, hl_queue* in, hl_queue* out, int64_t ns);
HL_API hl_rng* hl_rng_new();
HL_API void hl_rng_free(hl_rng* rng);
HL_API void hl_rng_next(hl_rng* rng, uint64_t* out, uint64_t low, uint64_t high);
HL_API int32_t hl_rng_get_and_update_state(hl_context* context, void* out, uint64_t low,
                                           uint64_t high);
// No program here makes custom calls, and their handlers are not linked.
HL_API int32_t hl_call_sites_begin(hl_context*, void**) { return HL_OK; }
HL_API hl_arena* hl_arena_new();
HL_API int32_t hl_arena_delete(hl_arena* arena);
HL_API hl_queue* hl_queue_new(int64_t capacity);
HL_API void hl_queue_free(hl_queue* queue);
HL_API int32_t hl_infeed(hl_context* context, void** buffers, const int64_t* sizes, int64_t count);
HL_API int32_t hl_outfeed(hl_context* context, void** buffers, const int64_t* sizes, int64_t count);

namespace {

std::atomic<int> wrong{0};

void expect(bool right, const char* what) {
  if (right) return;
  wrong.fetch_add(1);
  fprintf(stderr, "wrong: %s\n", what);
}

// Plain numbers: a chunk that ran twice, or is not visible to the caller, is a race.
struct Work {
  int64_t* counts;
  hl_context* context;
  int64_t nested;
};

void add_one(void* args, int64_t begin, int64_t end) {
  Work* work = static_cast<Work*>(args);
  for (int64_t i = begin; i < end; ++i) work->counts[i] += 1;
  if (work->nested == 0) return;
  int64_t inner[16] = {};
  Work small{inner, work->context, 0};
  hl_parallel_for(work->context, add_one, &small, 16, 3);
  for (int64_t count : inner) expect(count == 1, "a nested region");
}

int32_t program(hl_context* context, void** buffers) {
  int64_t n = *static_cast<int64_t*>(buffers[0]);
  for (int round = 0; round < 60; ++round) {
    int64_t* counts = static_cast<int64_t*>(hl_alloc(context, n * 8));
    memset(counts, 0, n * 8);
    Work work{counts, context, round % 3};
    // Wakes sleepers, or does not, or finds out by itself.
    int64_t ns = round % 4 == 0 ? -1 : round % 4 == 1 ? 1000 : 1'000'000'000;
    for (int times = 0; times < 10; ++times)
      hl_parallel_for_ns(context, add_one, &work, n, 1 + round % 7, ns);
    for (int64_t i = 0; i < n; ++i) expect(counts[i] == 10, "a region");
    hl_free(context, counts);
    uint64_t state[2];
    hl_rng_get_and_update_state(context, state, 3, 0);
  }
  return HL_OK;
}

int32_t feeding(hl_context* context, void** buffers) {
  int64_t size = 8;
  for (int i = 0; i < 200; ++i)
    if (int32_t status = hl_outfeed(context, buffers, &size, 1)) return status;
  return HL_OK;
}

int32_t taking(hl_context* context, void** buffers) {
  int64_t size = 8;
  for (int i = 0; i < 200; ++i)
    if (int32_t status = hl_infeed(context, buffers, &size, 1)) return status;
  return HL_OK;
}

int32_t endless(hl_context* context, void** buffers) {
  while (__atomic_load_n(&context->cancel, __ATOMIC_RELAXED) == 0) program(context, buffers);
  return HL_CANCELLED;
}

int32_t failing(hl_context* context, void**) {
  auto fail = [](void* args, int64_t begin, int64_t) {
    hl_set_error(static_cast<hl_context*>(args), HL_INTERNAL, "chunk %d", static_cast<int>(begin));
  };
  hl_parallel_for_ns(context, fail, context, 40, 1, 1'000'000'000);
  return HL_OK;
}

void many_programs(int threads, int hosts) {
  hl_pool* pool = hl_pool_new(threads);
  hl_arena* arena = hl_arena_new();
  hl_rng* rng = hl_rng_new();
  std::vector<std::thread> running;
  for (int host = 0; host < hosts; ++host) {
    running.emplace_back([=] {
      int64_t n = 20 + 31 * host;
      void* buffers[1] = {&n};
      hl_context* context = hl_context_new(pool, arena);
      hl_context_set_rng(context, rng);
      for (int i = 0; i < 5; ++i) expect(hl_execute(context, program, buffers) == HL_OK, "status");
      expect(hl_execute(context, failing, buffers) == HL_INTERNAL, "an error from a chunk");
      hl_context_free(context);
    });
  }
  for (std::thread& thread : running) thread.join();
  uint64_t state[2];
  hl_rng_next(rng, state, 0, 0);
  expect(state[0] == 0x7012395u + 3u * 60 * 5 * hosts, "the random state");
  hl_rng_free(rng);
  hl_pool_free(pool);
  expect(hl_arena_delete(arena) == HL_OK, "blocks left in the arena");
}

void feeds_and_cancel() {
  hl_pool* pool = hl_pool_new(3);
  hl_queue* queue = hl_queue_new(4);
  hl_context* contexts[3];
  for (hl_context*& context : contexts) context = hl_context_new(pool, nullptr);
  hl_context_set_feeds(contexts[0], nullptr, queue, -1);
  hl_context_set_feeds(contexts[1], queue, nullptr, -1);
  int64_t numbers[3] = {7, 0, 50};
  void* buffers[3] = {&numbers[0], &numbers[1], &numbers[2]};
  std::thread sender([&] { expect(hl_execute(contexts[0], feeding, buffers) == 0, "outfeed"); });
  std::thread taker([&] { expect(hl_execute(contexts[1], taking, buffers + 1) == 0, "infeed"); });
  hl_rng* rng = hl_rng_new();
  hl_context_set_rng(contexts[2], rng);
  std::thread loop(
      [&] { expect(hl_execute(contexts[2], endless, buffers + 2) == HL_CANCELLED, "cancel"); });
  sender.join();
  taker.join();
  hl_cancel(contexts[2]);
  loop.join();
  expect(numbers[1] == 7, "what was fed");
  for (hl_context* context : contexts) hl_context_free(context);
  hl_rng_free(rng);
  hl_queue_free(queue);
  hl_pool_free(pool);
}

}  // namespace

int main() {
  many_programs(8, 1);
  many_programs(4, 6);
  many_programs(1, 2);
  for (int i = 0; i < 30; ++i) {
    hl_pool* pool = hl_pool_new(5);
    hl_context* context = hl_context_new(pool, nullptr);
    int64_t counts[9] = {};
    Work work{counts, context, 0};
    hl_parallel_for_ns(context, add_one, &work, 9, 1, 1'000'000'000);
    for (int64_t count : counts) expect(count == 1, "a region without a program");
    hl_context_free(context);
    hl_pool_free(pool);
  }
  feeds_and_cancel();
  printf("%d wrong\n", wrong.load());
  return wrong.load() != 0;
}
