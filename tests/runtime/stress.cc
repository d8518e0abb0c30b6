// Threads at work in the runtime all at once, for ThreadSanitizer: `make tsan`. Ends with 0 if every
// result is right; the sanitizer ends it with 66 if it saw a race.
#include <stdio.h>
#include <string.h>

#include <atomic>
#include <thread>
#include <vector>

#include "../../hloom/runtime/native/executor.h"
#include "../../hloom/runtime/native/hl.h"

HL_API hl_pool* hl_pool_new(int32_t threads);
HL_API void hl_pool_free(hl_pool* pool);
HL_API hl_context* hl_context_new(hl_pool* pool, hl_arena* arena);
HL_API void hl_context_free(hl_context* context);
HL_API const char* hl_context_message(hl_context* context);
HL_API int32_t hl_execute(hl_context* context, hl_main_function fn, void** buffers);
HL_API void hl_cancel(hl_context* context);
HL_API void hl_context_set_rng(hl_context* context, hl_rng* rng);
HL_API void hl_context_set_feeds(hl_context* context, hl_queue* in, hl_queue* out, int64_t ns);
HL_API hl_rng* hl_rng_new();
HL_API void hl_rng_free(hl_rng* rng);
HL_API void hl_rng_next(hl_rng* rng, uint64_t* out, uint64_t low, uint64_t high);
HL_API int32_t hl_rng_get_and_update_state(hl_context* context, void* out, uint64_t low,
                                           uint64_t high);
HL_API hl_arena* hl_arena_new();
HL_API int32_t hl_arena_delete(hl_arena* arena);
HL_API hl_queue* hl_queue_new(int64_t capacity);
HL_API void hl_queue_free(hl_queue* queue);
HL_API int32_t hl_infeed(hl_context* context, void** buffers, const int64_t* sizes, int64_t count);
HL_API int32_t hl_outfeed(hl_context* context, void** buffers, const int64_t* sizes, int64_t count);

struct hl_devices;
HL_API hl_devices* hl_devices_new(int64_t count, int64_t warn, int64_t terminate, int64_t most);
HL_API void hl_devices_free(hl_devices* devices);
HL_API int32_t hl_devices_run(hl_devices* devices, hl_context** contexts, hl_main_function fn,
                              void*** buffers, char* message, int64_t size);
HL_API void hl_devices_abort(hl_devices* devices, int32_t status, const char* message);
HL_API int32_t hl_collective(hl_context*, const int64_t*, const char*, void**);
HL_API int32_t hl_collective_start(hl_context*, const int64_t*, const char*, void**);
HL_API int32_t hl_collective_done(hl_context*, const int64_t*, const char*);
HL_API int32_t hl_send(hl_context*, const char*, int64_t channel, const int64_t* pairs,
                       int64_t count, const void* data, int64_t bytes);
HL_API int32_t hl_receive(hl_context*, const char*, int64_t channel, const int64_t* pairs,
                          int64_t count, void* data, int64_t bytes);

// Of stress_collectives.cc.
int drawn_collectives();

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

// -- devices: an all-reduce and a gather under way at once, and a ring, many times

constexpr int64_t kDevices = 5, kLength = 1000;

// Of the operands of all devices: their sum, into the results of all. A step is 10 elements.
void sum_of_all(void* arguments, int64_t begin, int64_t end) {
  auto** arrays = static_cast<int64_t**>(arguments);
  for (int64_t k = 10 * begin; k < 10 * end; ++k) {
    int64_t sum = 0;
    for (int64_t d = 0; d < kDevices; ++d) sum += arrays[d][k];
    for (int64_t d = 0; d < kDevices; ++d) arrays[kDevices + d][k] = sum;
  }
}

// As hloom/program/thunks/collective.py writes them: number, kind, operands, results, groups,
// arrays, folds, numbers.
const int64_t kSum[] = {
    1,  0,  1, 1, 1, 5, 0, 1,  2,  3,  4,  1,  1, 8 * kLength, 1, 0, 5, kLength / 10,
    80, 10, 0, 1, 2, 3, 4, -1, -2, -3, -4, -5, 0};
const int64_t kGather[] = {2, 1, 1, 1, 1, 5, 0, 1, 2, 3, 4, 1, 1, 8, 0, 0};
const int64_t kRing[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 0};
std::atomic<bool> one_fails{false};

int32_t on_a_device(hl_context* context, void**) {
  std::vector<int64_t> mine(kLength), all(kLength);
  int64_t got[kDevices], from = -1, device = context->device;
  auto fold = reinterpret_cast<void*>(sum_of_all);
  for (int64_t turn = 0; turn < 20; ++turn) {
    for (int64_t k = 0; k < kLength; ++k) mine[k] = device + k * turn;
    if (one_fails && device == 3 && turn == 7) return hl_set_error(context, HL_INTERNAL, "enough");
    void* sum[] = {mine.data(), all.data(), fold};
    void* gather[] = {&device, got};
    int32_t status = hl_collective_start(context, kSum, "sum", sum);
    if (status == 0) status = hl_collective_start(context, kGather, "gather", gather);
    if (status == 0) status = hl_send(context, "send", 7, kRing, 5, &device, 8);
    if (status == 0) status = hl_collective_done(context, kGather, "gather");
    if (status == 0) status = hl_collective_done(context, kSum, "sum");
    if (status == 0) status = hl_receive(context, "recv", 7, kRing, 5, &from, 8);
    if (status != 0) return status;
    for (int64_t k = 0; k < kLength; ++k) expect(all[k] == 10 + 5 * k * turn, "a sum");
    for (int64_t d = 0; d < kDevices; ++d) expect(got[d] == d, "a gather");
    expect(from == (device + kDevices - 1) % kDevices, "a ring");
  }
  return HL_OK;
}

int32_t run_on(hl_devices* devices) {
  hl_pool* pool = hl_pool_new(2);
  hl_context* contexts[kDevices];
  void** buffers[kDevices] = {};
  char message[200];
  for (auto& context : contexts) context = hl_context_new(pool, nullptr);
  int32_t status =
      hl_devices_run(devices, contexts, on_a_device, buffers, message, sizeof(message));
  for (auto& context : contexts) hl_context_free(context);
  hl_pool_free(pool);
  return status;
}

void several_devices() {
  hl_devices* devices = hl_devices_new(kDevices, 20'000'000'000, 40'000'000'000, 60'000'000'000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int k = 0; k < 10; ++k) expect(run_on(devices) == HL_OK, "a run on several devices");
    });
  for (std::thread& each : threads) each.join();
  one_fails = true;
  for (int k = 0; k < 10; ++k) expect(run_on(devices) == HL_INTERNAL, "a device that fails");
  one_fails = false;
  std::thread running([&] { run_on(devices); });
  hl_devices_abort(devices, HL_CANCELLED, "enough");
  running.join();
  expect(run_on(devices) == HL_OK, "a run after one that was aborted");
  hl_devices_free(devices);
}

// Runs on plain numbers: run k adds up what those it waits for have written, and a region's work.
// A wait that is not kept is a race.
struct Cell {
  int64_t sum;
  int64_t counts[32];
};

template <int k>
int32_t one_run(hl_context* context, void** buffers) {
  Cell* cells = static_cast<Cell*>(buffers[0]);
  Work work{cells[k].counts, context, 0};
  hl_parallel_for_ns(context, add_one, &work, 32, 1, 1'000'000);
  cells[k].sum = 1;
  if (k == 3) cells[k].sum += cells[0].sum + cells[1].sum;
  if (k == 4) cells[k].sum += cells[1].sum + cells[2].sum;
  if (k == 5) cells[k].sum += cells[3].sum + cells[4].sum;
  void* block = hl_alloc(context, 1 << 12);
  memset(block, k, 1 << 12);
  hl_free(context, block);
  return HL_OK;
}

int32_t run_fails(hl_context* context, void**) {
  return hl_set_error(context, HL_NOT_FOUND, "this run %s", "fails");
}

int32_t one_is_cancelled(hl_context* context, void**) {
  while (__atomic_load_n(&context->cancel, __ATOMIC_RELAXED) == 0) {
  }
  return HL_CANCELLED;
}

// Six runs (3 after 0 and 1, 4 after 1 and 2, 5 after 3 and 4); no call sites.
constexpr int64_t kPlan[] = {6, 3, 0, 32, 1,  0, 0, 0, 33, 2,  0, 0, 0, 35, 1, 0, 0, 2, 36,
                             1, 0, 0, 2,  37, 1, 0, 0, 2,  38, 0, 0, 0, 3,  3, 4, 4, 5, 5};
constexpr int64_t kPair[] = {2, 2, 0, 12, 0, 0, 0, 0, 12, 0, 0, 0};

int32_t six_runs(hl_context* context, void** buffers) {
  const hl_main_function runs[] = {one_run<0>, one_run<1>, one_run<2>,
                                   one_run<3>, one_run<4>, one_run<5>};
  return hl_run_concurrently(context, buffers, runs, kPlan, static_cast<int64_t*>(buffers[1]));
}

int32_t inside_another(hl_context* context, void** buffers) {
  const hl_main_function runs[] = {six_runs, one_run<6>};
  return hl_run_concurrently(context, buffers, runs, kPair, static_cast<int64_t*>(buffers[2]));
}

int32_t a_failure(hl_context* context, void** buffers) {
  const hl_main_function runs[] = {one_is_cancelled, run_fails};
  return hl_run_concurrently(context, buffers, runs, kPair, static_cast<int64_t*>(buffers[2]));
}

int32_t waits_for_cancel(hl_context* context, void** buffers) {
  const hl_main_function runs[] = {one_is_cancelled, one_is_cancelled};
  return hl_run_concurrently(context, buffers, runs, kPair, static_cast<int64_t*>(buffers[2]));
}

void runs_beside(int threads, int hosts, bool drawn) {
  hl_pool* pool = hl_pool_new(threads);
  std::vector<std::thread> all;
  for (int host = 0; host < hosts; ++host) {
    all.emplace_back([pool, drawn] {
      hl_context* context = hl_context_new(pool, nullptr);
      int64_t outer[HL_STATE] = {}, inner[HL_STATE] = {};
      for (int i = 0; i < 150; ++i) {
        std::vector<Cell> cells(7);
        void* buffers[] = {cells.data(), inner, outer};
        expect(hl_execute(context, inside_another, buffers) == HL_OK, "runs inside runs");
        expect(cells[5].sum == 7, "what runs add up");
        for (const Cell& cell : cells)
          for (int64_t count : cell.counts) expect(count == 1, "a region of a run");
        // One after another, the first would wait for the second for ever.
        if (!drawn || i % 10 != 0) continue;
        expect(hl_execute(context, a_failure, buffers) == HL_NOT_FOUND, "the first error");
        expect(strcmp(hl_context_message(context), "this run fails") == 0, "its words");
        std::thread canceller([context] { hl_cancel(context); });
        int32_t status = hl_execute(context, waits_for_cancel, buffers);
        expect(status == HL_CANCELLED, "a cancelled program");
        canceller.join();
      }
      hl_context_free(context);
    });
  }
  for (std::thread& thread : all) thread.join();
  hl_pool_free(pool);
}

}  // namespace

int main() {
  wrong += drawn_collectives();
  several_devices();
  hl_executor_draw(1, 20'000);
  runs_beside(4, 3, true);
  runs_beside(2, 1, true);
  hl_executor_draw(0, 0);
  runs_beside(3, 2, false);
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
