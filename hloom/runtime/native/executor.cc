// Runs side by side; see executor.h.
//
// The thread that comes here owns the concurrent: it lives on its stack until every run has ended. Other
// threads are invited through slots of the pool, as to a region of which each chunk is "work on
// this concurrent"; idle workers take such a chunk, work as long as runs are ready, and leave. One
// mutex guards a concurrent: runs take tens of microseconds and more.
#include "executor.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "pool.h"
#include "steps.h"

// Of custom_call.cc.
HL_API int32_t hl_custom_call_keeps_order(const hl_custom_call* call);

namespace hloom {
namespace {

constexpr int kMostInvitations = 16;
// How long an owner with nothing to do sleeps until it looks for regions to help with.
constexpr int64_t kNapNs = 50'000;

std::atomic<uint64_t> draw_seed{0};
std::atomic<int64_t> draw_delay_ns{0};
std::atomic<int64_t> overlaps{0};

uint64_t drawn(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

void wait_ns(int64_t ns) {
  timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
  nanosleep(&time, nullptr);
}

struct BranchPlan {
  const int64_t* numbers;
  int64_t count() const { return numbers[HL_PLAN_RUNS]; }
  int64_t streams() const { return numbers[HL_PLAN_STREAMS]; }
  const int64_t* run(int64_t k) const { return numbers + HL_PLAN_HEAD + k * HL_PLAN_RUN; }
  const int64_t* successors(int64_t k) const { return numbers + run(k)[HL_RUN_SUCCESSORS]; }
  const int64_t* sites(int64_t k) const { return numbers + run(k)[HL_RUN_SITES]; }
};

struct ConcurrentRun {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  Context* owner;
  void** buffers;
  const hl_main_function* functions;
  BranchPlan plan;
  hl_pool* pool;
  uint32_t generation;
  uint64_t draw;  // 0: the first one that is ready is next
  int64_t most_delay_ns;
  int32_t* waits;  // for how many each run still waits; -1: it has begun
  int64_t left;    // runs that have not ended
  int64_t ready = 0, running = 0;
  int64_t lanes = 1;  // threads at work, the owner counted
  int32_t status = HL_OK;
  Context* failed = nullptr;  // in whose run the first error was
  int failed_lane = -1;
  std::atomic<uint32_t> changes{0};  // how many runs have ended
  std::atomic<uint32_t> naps{0};     // the owner sleeps until this changes
  Slot* invitations[kMostInvitations];
  uint32_t invited[kMostInvitations];
  int invitation_count = 0;
  std::atomic<Slot*> slots[kMostLanes];  // where those publish regions who work on this run
};

void work_on_run(void* args, int64_t, int64_t);

bool has_forked(const ConcurrentRun& concurrent) {
  return pool_generation(concurrent.pool) != concurrent.generation;
}

// Asks idle workers to come, as many as there are runs that nobody takes. With the mutex held.
void invite(ConcurrentRun& concurrent) {
  int64_t wanted = concurrent.plan.streams() - concurrent.lanes;
  wanted = std::min(wanted, concurrent.ready);
  for (int k = 0; k < concurrent.invitation_count; ++k)
    wanted -= chunks_left(concurrent.invitations[k]);
  if (wanted <= 0) return;
  int k = 0;
  while (k < concurrent.invitation_count &&
         !is_done(concurrent.invitations[k], concurrent.invited[k]))
    ++k;
  if (k == kMostInvitations) return;
  if (k == concurrent.invitation_count) {
    Slot* slot = acquire_slot(concurrent.pool);
    if (slot == nullptr) return;
    concurrent.invitations[concurrent.invitation_count++] = slot;
  }
  concurrent.invited[k] = static_cast<uint32_t>(wanted);
  publish(concurrent.pool, concurrent.invitations[k], {work_on_run, &concurrent, wanted, 1},
          concurrent.invited[k]);
}

// Takes invitations back that nobody has accepted, and waits until the others have left.
void withdraw(ConcurrentRun& concurrent) {
  for (int k = 0; k < concurrent.invitation_count; ++k) {
    withdraw_chunks(concurrent.pool, concurrent.invitations[k], concurrent.invited[k]);
    release_slot(concurrent.pool, concurrent.invitations[k]);
  }
}

// The next run, which has begun with this; -1 if none is ready. With the mutex held.
int64_t take(ConcurrentRun& concurrent) {
  if (concurrent.ready == 0 || concurrent.status != HL_OK) return -1;
  int64_t skipped =
      concurrent.draw == 0
          ? 0
          : static_cast<int64_t>(drawn(&concurrent.draw) % static_cast<uint64_t>(concurrent.ready));
  for (int64_t k = 0; k < concurrent.plan.count(); ++k) {
    if (concurrent.waits[k] != 0 || skipped-- > 0) continue;
    concurrent.waits[k] = -1;
    --concurrent.ready;
    if (concurrent.running++ > 0) overlaps.fetch_add(1, std::memory_order_relaxed);
    return k;
  }
  return -1;
}

// A run has ended: whoever waited for it may begin. With the mutex held.
void ended(ConcurrentRun& concurrent, Context* context, int64_t run, int32_t status) {
  --concurrent.left;
  --concurrent.running;
  if (status != HL_OK) {
    if (concurrent.status != HL_OK) return;
    concurrent.status = status;
    concurrent.failed = context;
    // The others end as soon as they look.
    cancel_tree(concurrent.owner);
    return;
  }
  const int64_t* next = concurrent.plan.successors(run);
  for (int64_t k = 0; k < concurrent.plan.run(run)[HL_RUN_SUCCESSOR_COUNT]; ++k)
    if (--concurrent.waits[next[k]] == 0) ++concurrent.ready;
}

// Runs what is ready, on this thread; the mutex is held before and after.
void work(ConcurrentRun& concurrent, Context* context) {
  for (;;) {
    int64_t run = take(concurrent);
    if (run < 0) return;
    invite(concurrent);
    int64_t delay = 0;
    if (concurrent.most_delay_ns > 0)
      delay = static_cast<int64_t>(drawn(&concurrent.draw) %
                                   static_cast<uint64_t>(concurrent.most_delay_ns));
    pthread_mutex_unlock(&concurrent.mutex);
    if (delay != 0) wait_ns(delay);
    int32_t status = concurrent.functions[run](context, concurrent.buffers);
    if (has_forked(concurrent)) {
      // A copy of the process: only this thread is in it, and nobody else holds or wants the mutex.
      concurrent.mutex = PTHREAD_MUTEX_INITIALIZER;
      concurrent.invitation_count = 0;
      concurrent.lanes = 1;
      if ((concurrent.running > 1 || context != concurrent.owner) && status == HL_OK)
        status = hl_set_error(context, HL_ABORTED,
                              "the process forked while parts of a program ran side by side: "
                              "its copy cannot go on with the program");
      concurrent.running = 1;
    }
    pthread_mutex_lock(&concurrent.mutex);
    ended(concurrent, context, run, status);
    concurrent.changes.fetch_add(1);
    if (concurrent.naps.load() != 0) wake_all(&concurrent.changes);
  }
}

// Takes chunks of the regions that runs of this concurrent have published; whether there was one.
bool help_others(ConcurrentRun& concurrent) {
  bool helped = false;
  for (std::atomic<Slot*>& place : concurrent.slots) {
    Slot* slot = place.load(std::memory_order_acquire);
    if (slot != nullptr) helped |= help_region(concurrent.pool, slot, work_on_run);
  }
  return helped;
}

// Helps and waits until something has changed, or for as long as workers spin (`leaves`).
void idle(ConcurrentRun& concurrent, uint32_t seen, bool leaves) {
  int64_t since = now_ns();
  while (concurrent.changes.load(std::memory_order_acquire) == seen) {
    if (help_others(concurrent)) {
      since = now_ns();
      continue;
    }
    relax();
    if (now_ns() - since < pool_spin_ns(concurrent.pool)) continue;
    if (leaves) return;
    concurrent.naps.store(1);
    nap(&concurrent.changes, seen, kNapNs);
    concurrent.naps.store(0);
  }
}

// What a lane does is written down in a list of its own while somebody watches.
void begin_lane_steps(const Context* owner, Context* lane) {
  if (owner->steps == nullptr || lane->steps != nullptr) return;
  lane->steps = new (std::nothrow) Steps;
  if (lane->steps != nullptr) lane->steps->most = owner->steps->most;
}

void merge_lane_steps(Context* owner) {
  Lanes* lanes = owner->steps == nullptr ? nullptr : owner->lanes.load();
  // Inside another set of runs of the same thread, the lanes of that one are still at work.
  bool is_outermost = owner->beside.load() == (owner->parent == nullptr ? 1 : 2);
  if (lanes == nullptr || !is_outermost) return;
  for (std::atomic<Context*>& place : lanes->of) {
    Context* lane = place.load();
    if (lane == nullptr || lane->steps == nullptr) continue;
    for (const Step& step : lane->steps->done)
      if (owner->steps->done.size() < owner->steps->most) owner->steps->done.push_back(step);
    delete lane->steps;
    lane->steps = nullptr;
  }
}

// The context of a worker's thread, made ready; null: no more can work on this run, or there is
// no memory. With the mutex held.
Context* join(ConcurrentRun& concurrent, int* number) {
  Context* context = hloom::begin_lane(concurrent.owner, number);
  if (context == nullptr) return nullptr;
  ++concurrent.lanes;
  context->slot_generation = concurrent.generation;
  context->slot = acquire_slot(concurrent.pool);
  concurrent.slots[*number].store(context->slot, std::memory_order_release);
  begin_lane_steps(concurrent.owner, context);
  return context;
}

void leave(ConcurrentRun& concurrent, Context* context, int number) {
  concurrent.slots[number].store(nullptr, std::memory_order_release);
  if (context->slot != nullptr && !has_forked(concurrent))
    release_slot(concurrent.pool, context->slot);
  context->slot = nullptr;
  --concurrent.lanes;
  // What a failed lane says is read by the owner: nobody else may begin in it.
  if (concurrent.failed == context) concurrent.failed_lane = number;
  else end_lane(concurrent.owner, number);
}

void work_on_run(void* args, int64_t, int64_t) {
  ConcurrentRun& concurrent = *static_cast<ConcurrentRun*>(args);
  if (has_forked(concurrent)) return;
  pthread_mutex_lock(&concurrent.mutex);
  int number = 0;
  if (concurrent.ready != 0 && concurrent.status == HL_OK) {
    if (Context* context = join(concurrent, &number)) {
      for (;;) {
        work(concurrent, context);
        if (concurrent.left == 0 || concurrent.status != HL_OK || has_forked(concurrent)) break;
        uint32_t seen = concurrent.changes.load(std::memory_order_acquire);
        pthread_mutex_unlock(&concurrent.mutex);
        idle(concurrent, seen, true);
        pthread_mutex_lock(&concurrent.mutex);
        if (concurrent.ready == 0) break;
      }
      leave(concurrent, context, number);
    }
  }
  pthread_mutex_unlock(&concurrent.mutex);
}

// The first error becomes that of the owner's context.
void pass_on(ConcurrentRun& concurrent) {
  if (concurrent.failed == nullptr || concurrent.failed == concurrent.owner) return;
  replace_error(concurrent.owner, concurrent.status, concurrent.failed);
  end_lane(concurrent.owner, concurrent.failed_lane);
}

int32_t run_frame(ConcurrentRun& concurrent) {
  Context* owner = concurrent.owner;
  constexpr int last = kMostLanes - 1;
  concurrent.slots[last].store(owner->slot, std::memory_order_release);
  pthread_mutex_lock(&concurrent.mutex);
  for (;;) {
    work(concurrent, owner);
    if (concurrent.running == 0 && (concurrent.left == 0 || concurrent.status != HL_OK)) break;
    uint32_t seen = concurrent.changes.load(std::memory_order_acquire);
    pthread_mutex_unlock(&concurrent.mutex);
    idle(concurrent, seen, false);
    pthread_mutex_lock(&concurrent.mutex);
  }
  pthread_mutex_unlock(&concurrent.mutex);
  concurrent.slots[last].store(nullptr, std::memory_order_release);
  withdraw(concurrent);
  merge_lane_steps(owner);
  pass_on(concurrent);
  return concurrent.status;
}

int32_t one_after_another(hl_context* context, void** buffers, const hl_main_function* functions,
                          int64_t count) {
  for (int64_t k = 0; k < count; ++k)
    if (int32_t status = functions[k](context, buffers)) return status;
  return HL_OK;
}

// Whether two runs call handlers that keep their order, as those written in Python do.
bool calls_in_order(Context* context, const BranchPlan& plan) {
  int64_t found = 0;
  for (int64_t k = 0; k < plan.count(); ++k) {
    bool calls = false;
    for (int64_t s = 0; s < plan.run(k)[HL_RUN_SITE_COUNT]; ++s) {
      int64_t site = plan.sites(k)[s];
      calls |= site < context->call_site_count &&
               hl_custom_call_keeps_order(context->call_sites[site].call) != 0;
    }
    found += calls;
  }
  return found > 1;
}

// What executions of one set of runs have shown, in numbers that live with the program.
class Experience {
 public:
  explicit Experience(int64_t* numbers) : numbers_(numbers) {}

  // Whether the next execution is to have its runs side by side. What was guessed counts for two,
  // then the other way is tried, then the quicker one is taken, with a look at the other from time
  // to time unless that is hopeless.
  bool begin() {
    count_ = __atomic_fetch_add(numbers_ + HL_STATE_COUNT, 1, __ATOMIC_RELAXED);
    int64_t beside = __atomic_load_n(numbers_ + HL_STATE_BESIDE_NS, __ATOMIC_RELAXED);
    int64_t after = __atomic_load_n(numbers_ + HL_STATE_AFTER_NS, __ATOMIC_RELAXED);
    is_beside_ =
        count_ != (beside < kLongNs ? kGuessed : kGuessedLong) && (after == 0 || beside <= after);
    bool is_close = std::max(beside, after) / 2 < std::min(beside, after);
    if (count_ % kLookEvery == kLookEvery - 1 && is_close) is_beside_ = !is_beside_;
    began_ = now_ns();
    return is_beside_;
  }

  void end() {
    int64_t* place = numbers_ + (is_beside_ ? HL_STATE_BESIDE_NS : HL_STATE_AFTER_NS);
    int64_t ns = now_ns() - began_;
    int64_t before = __atomic_load_n(place, __ATOMIC_RELAXED);
    // The first one had threads to make, and pages to touch.
    int64_t now = before == 0 || count_ < kGuessed ? ns : before + (ns - before) / 4;
    __atomic_store_n(place, std::max<int64_t>(now, 1), __ATOMIC_RELAXED);
  }

 private:
  static constexpr int64_t kGuessed = 2, kGuessedLong = 16, kLookEvery = 128;
  static constexpr int64_t kLongNs = 20'000'000;
  int64_t* numbers_;
  int64_t count_ = 0, began_ = 0;
  bool is_beside_ = false;
};

int32_t side_by_side(Context* owner, void** buffers, const hl_main_function* functions,
                     const BranchPlan& plan, uint64_t seed) {
  int64_t count = plan.count();
  auto* waits = static_cast<int32_t*>(hl_alloc(owner, count * sizeof(int32_t)));
  if (waits == nullptr) return owner->status;
  ConcurrentRun concurrent{};
  concurrent.owner = owner;
  concurrent.buffers = buffers;
  concurrent.functions = functions;
  concurrent.plan = plan;
  concurrent.pool = owner->pool;
  concurrent.generation = pool_generation(owner->pool);
  concurrent.draw = seed;
  concurrent.most_delay_ns = seed == 0 ? 0 : draw_delay_ns.load(std::memory_order_relaxed);
  concurrent.waits = waits;
  concurrent.left = count;
  for (int64_t k = 0; k < count; ++k) {
    waits[k] = static_cast<int32_t>(plan.run(k)[HL_RUN_WAITS]);
    concurrent.ready += waits[k] == 0;
  }
  owner->beside.fetch_add(1, std::memory_order_relaxed);
  int32_t status = run_frame(concurrent);
  owner->beside.fetch_sub(1, std::memory_order_relaxed);
  hl_free(owner, waits);
  return status;
}

}  // namespace
}  // namespace hloom

HL_API int32_t hl_run_concurrently(hl_context* context, void** buffers,
                                   const hl_main_function* runs, const int64_t* plan,
                                   int64_t* state) {
  using namespace hloom;
  BranchPlan numbers{plan};
  if (context->threads <= 1 || context->pool == nullptr || calls_in_order(of(context), numbers))
    return one_after_another(context, buffers, runs, numbers.count());
  if (draw_seed.load(std::memory_order_relaxed) != 0) {
    uint64_t seed = draw_seed.fetch_add(0x9e3779b97f4a7c15u) | 1;
    return side_by_side(of(context), buffers, runs, numbers, seed);
  }
  Experience experience(state);
  int32_t status = experience.begin() ? side_by_side(of(context), buffers, runs, numbers, 0)
                                      : one_after_another(context, buffers, runs, numbers.count());
  experience.end();
  return status;
}

HL_API void hl_executor_draw(int64_t seed, int64_t most_delay_ns) {
  hloom::draw_delay_ns.store(most_delay_ns);
  hloom::draw_seed.store(static_cast<uint64_t>(seed));
}

HL_API int64_t hl_executor_overlaps() { return hloom::overlaps.load(); }
