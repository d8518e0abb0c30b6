// The spin pool; see pool.h for the protocol.
#include "host.h"
#include "pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "float_mode.h"

struct hl_pool {
  // Which slots are in use; what idle workers look at.
  alignas(64) std::atomic<uint64_t> mask{0};
  // Sleeping threads << 32 | those of them that were woken and have not got up yet. One word, so
  // that nobody is woken twice and nobody is forgotten.
  alignas(64) std::atomic<uint64_t> sleep{0};
  std::atomic<uint32_t> wake{0};         // the futex; counts wakings
  std::atomic<int> waker_processor{-1};  // where the last waking came from
  std::atomic<uint32_t> stop{0};
  std::atomic<uint32_t> started{0};
  std::atomic<uint32_t> generation{0};
  int threads = 1;
  int64_t spin_ns = hloom::kSpinNs;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // held while threads are made
  pthread_t* workers = nullptr;
  int worker_count = 0;
  hl_pool* next = nullptr;  // in the list of all pools
  hl_pool* previous = nullptr;
  hloom::Slot slots[hloom::kMostSlots];
};

namespace hloom {
namespace {

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // isb waits about as long as pause does; yield does nothing on most cores.
  asm volatile("isb" ::: "memory");
#endif
}

void futex_wait(std::atomic<uint32_t>* word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, expected, nullptr,
          nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>* word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr,
          0);
}

// All pools of the process, for the sake of fork().
pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
hl_pool* registry = nullptr;
pthread_once_t registry_once = PTHREAD_ONCE_INIT;

void before_fork() {
  pthread_mutex_lock(&registry_mutex);
  for (hl_pool* pool = registry; pool != nullptr; pool = pool->next)
    pthread_mutex_lock(&pool->mutex);
}

void after_fork_in_parent() {
  for (hl_pool* pool = registry; pool != nullptr; pool = pool->next)
    pthread_mutex_unlock(&pool->mutex);
  pthread_mutex_unlock(&registry_mutex);
}

// The child has one thread, and programs of other threads are gone: begin anew.
void after_fork_in_child() {
  for (hl_pool* pool = registry; pool != nullptr; pool = pool->next) {
    pool->mask.store(0);
    pool->sleep.store(0);
    pool->started.store(0);
    pool->worker_count = 0;
    pool->generation.fetch_add(1);
    for (Slot& slot : pool->slots)
      for (std::atomic<uint64_t>& word : slot.words) word.store(0);
    pthread_mutex_unlock(&pool->mutex);
  }
  pthread_mutex_unlock(&registry_mutex);
}

void watch_forks() { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

void wake_some(hl_pool* pool, uint32_t wanted);

// How many words of a slot regions of this pool may use.
uint32_t segment_limit(const hl_pool* pool) {
  uint32_t threads = static_cast<uint32_t>(pool->threads);
  return threads < kMostSegments ? threads : kMostSegments;
}

// Takes chunks of a slot until none is left; whether there was one.
bool help(hl_pool* pool, Slot& slot, uint32_t number, bool was_asleep,
          hl_range_function except = nullptr) {
  uint32_t mine = 0;
  Claim claim;
  while (claim_chunk(slot, segment_limit(pool), number, except, &claim)) {
    // The caller wakes few, those wake more: with 64 threads it would be late for its own work.
    if (was_asleep && mine == 0) {
      uint32_t left = chunks_left(&slot);
      if (left != 0) wake_some(pool, left);
    }
    claim.region.run(claim.chunk);
    ++mine;
  }
  if (mine == 0) return false;
  slot.done.fetch_add(mine, std::memory_order_seq_cst);
  if (slot.waiting.load(std::memory_order_seq_cst) != 0) futex_wake(&slot.done, 1);
  return true;
}

// One look at all slots in use; whether there was work.
bool look(hl_pool* pool, unsigned number, bool was_asleep) {
  uint64_t mask = pool->mask.load(std::memory_order_acquire);
  bool worked = false;
  // Each worker begins at another slot, so that programs share the workers.
  unsigned first = number & 63;
  uint64_t turned = first == 0 ? mask : mask >> first | mask << (64 - first);
  for (; turned != 0; turned &= turned - 1)
    worked |= help(pool, pool->slots[(__builtin_ctzll(turned) + first) & 63], number, was_asleep);
  return worked;
}

bool is_work_there(hl_pool* pool) {
  for (uint64_t mask = pool->mask.load(); mask != 0; mask &= mask - 1)
    if (chunks_left(&pool->slots[__builtin_ctzll(mask)]) != 0) return true;
  return false;
}

void sleep_until_woken(hl_pool* pool) {
  uint32_t seen = pool->wake.load();
  pool->sleep.fetch_add(uint64_t{1} << 32);
  if (pool->stop.load() == 0 && !is_work_there(pool)) futex_wait(&pool->wake, seen);
  uint64_t word = pool->sleep.load();
  uint64_t up;
  do {
    up = word - (uint64_t{1} << 32) - (static_cast<uint32_t>(word) != 0 ? 1 : 0);
  } while (!pool->sleep.compare_exchange_weak(word, up));
}

// Moves this thread off a processor, if it is on it. Systems like to start who is woken where the
// waker is, although that one goes on working: a worker that spins there takes the time of the
// caller whom it is to help. It may go where it likes again at once.
void leave_processor(int processor) {
  if (processor < 0 || sched_getcpu() != processor) return;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(processor, &others);
  if (CPU_COUNT(&others) == 0) return;
  if (sched_setaffinity(0, sizeof(others), &others) == 0)
    sched_setaffinity(0, sizeof(allowed), &allowed);
}

struct Start {
  hl_pool* pool;
  unsigned index;
};

void* work(void* argument) {
  Start start = *static_cast<Start*>(argument);
  free(argument);
  hl_pool* pool = start.pool;
  set_float_mode(program_float_mode);
  bool was_asleep = false;
  int64_t since = now_ns();
  unsigned turns = 0;
  uint32_t generation = pool_generation(pool);
  while (pool->stop.load(std::memory_order_relaxed) == 0) {
    // A handler of a custom call has forked here: its copy of the process has other threads to come.
    if (pool_generation(pool) != generation) return nullptr;
    if (look(pool, start.index, was_asleep)) {
      was_asleep = false;
      since = now_ns();
      continue;
    }
    pause();
    if ((++turns & 15) != 0 || now_ns() - since < pool->spin_ns) continue;
    sleep_until_woken(pool);
    leave_processor(pool->waker_processor.load(std::memory_order_relaxed));
    was_asleep = true;
    since = now_ns();
  }
  return nullptr;
}

// Makes the workers. Fewer come where the system gives no more: the work is done all the same.
void start_workers(hl_pool* pool) {
  pthread_mutex_lock(&pool->mutex);
  if (pool->started.load() == 0) {
    // Signals belong to the host's threads: Ctrl-C must reach Python.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 1; i < pool->threads; ++i) {
      Start* start = static_cast<Start*>(malloc(sizeof(Start)));
      if (start == nullptr) break;
      *start = {pool, static_cast<unsigned>(i)};
      if (pthread_create(&pool->workers[pool->worker_count], nullptr, work, start) != 0) {
        free(start);
        break;
      }
      ++pool->worker_count;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pool->started.store(1, std::memory_order_release);
  }
  pthread_mutex_unlock(&pool->mutex);
}

// How many sleep and have not been woken.
inline uint32_t asleep(uint64_t word) {
  return static_cast<uint32_t>(word >> 32) - static_cast<uint32_t>(word);
}

// Wakes up to `wanted` sleepers, at most 4: they wake the others.
void wake_some(hl_pool* pool, uint32_t wanted) {
  uint64_t word = pool->sleep.load(std::memory_order_relaxed);
  uint32_t count;
  do {
    count = asleep(word) < wanted ? asleep(word) : wanted;
    if (count > 4) count = 4;
    if (count == 0) return;
  } while (!pool->sleep.compare_exchange_weak(word, word + count));
  pool->waker_processor.store(sched_getcpu(), std::memory_order_relaxed);
  pool->wake.fetch_add(1);
  futex_wake(&pool->wake, static_cast<int>(count));
}

// Waits until workers have finished `wanted` chunks of the slot.
void await_workers(hl_pool* pool, Slot* slot, uint32_t wanted) {
  if (slot->done.load(std::memory_order_acquire) == wanted) return;
  int64_t since = 0;
  for (unsigned turns = 1;; ++turns) {
    pause();
    uint32_t done = slot->done.load(std::memory_order_acquire);
    if (done == wanted) return;
    if ((turns & 15) != 0) continue;
    if (since == 0) since = now_ns();
    if (now_ns() - since < pool->spin_ns) continue;
    // The worker may have lost its processor to us: leave it.
    slot->waiting.store(1);
    done = slot->done.load();
    if (done != wanted) futex_wait(&slot->done, done);
    slot->waiting.store(0, std::memory_order_relaxed);
  }
}

}  // namespace

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

uint32_t pool_generation(const hl_pool* pool) {
  return pool->generation.load(std::memory_order_relaxed);
}

int pool_threads(const hl_pool* pool) { return pool == nullptr ? 1 : pool->threads; }

Slot* acquire_slot(hl_pool* pool) {
  uint64_t mask = pool->mask.load(std::memory_order_relaxed);
  while (~mask != 0) {
    uint64_t bit = ~mask & (mask + 1);
    if (pool->mask.compare_exchange_weak(mask, mask | bit, std::memory_order_acq_rel))
      return &pool->slots[__builtin_ctzll(bit)];
  }
  return nullptr;
}

void release_slot(hl_pool* pool, Slot* slot) {
  pool->mask.fetch_and(~(uint64_t{1} << (slot - pool->slots)), std::memory_order_acq_rel);
}

void run_shared(hl_pool* pool, Slot* slot, const ParallelRegion& region, uint32_t chunks,
                int64_t serial_ns) {
  put(slot, region, chunks, segment_limit(pool));
  auto wake = [&](uint32_t wanted) {
    if (pool->started.load(std::memory_order_acquire) == 0) start_workers(pool);
    wake_some(pool, wanted);
  };
  bool idle = pool->started.load(std::memory_order_relaxed) == 0 ||
              asleep(pool->sleep.load(std::memory_order_relaxed)) != 0;
  int64_t began = 0;
  if (idle) {
    // A cut into a few coarse pieces leaves nothing to share once the first has been timed.
    bool coarse = serial_ns < 0 && chunks <= 2 * static_cast<uint32_t>(pool->threads);
    // Many short regions are worth it too: what they would have shared adds up.
    if (serial_ns > 0) slot->owed_ns += serial_ns;
    if (coarse || serial_ns >= kWorthWakingNs || slot->owed_ns >= kWorthWakingNs) {
      slot->owed_ns = 0;
      wake(chunks - 1);
      idle = false;
    } else if (serial_ns >= 0) {
      idle = false;
    } else {
      began = now_ns();
    }
  }

  uint32_t mine = 0;
  Claim claim;
  while (claim_chunk(*slot, segment_limit(pool), 0, nullptr, &claim)) {
    claim.region.run(claim.chunk);
    ++mine;
    if (!idle || (mine & (mine - 1)) != 0) continue;
    uint32_t left = chunks_left(slot);
    if (left != 0 && (now_ns() - began) / mine * left >= kWorthWakingNs) {
      wake(left);
      idle = false;
    }
  }
  if (idle) slot->owed_ns += now_ns() - began;
  await_workers(pool, slot, chunks - mine);
}

void publish(hl_pool* pool, Slot* slot, const ParallelRegion& region, uint32_t chunks) {
  put(slot, region, chunks, segment_limit(pool));
  if (pool->started.load(std::memory_order_acquire) == 0) start_workers(pool);
  wake_some(pool, chunks);
}

bool is_done(const Slot* slot, uint32_t chunks) {
  return chunks_left(slot) == 0 && slot->done.load(std::memory_order_acquire) == chunks;
}

void withdraw_chunks(hl_pool* pool, Slot* slot, uint32_t chunks) {
  uint32_t withdrawn = empty(slot);
  await_workers(pool, slot, chunks - withdrawn);
}

bool help_region(hl_pool* pool, Slot* slot, hl_range_function except) {
  return help(pool, *slot, 0, false, except);
}

int64_t pool_spin_ns(const hl_pool* pool) { return pool->spin_ns; }

void relax() { pause(); }

void nap(std::atomic<uint32_t>* word, uint32_t seen, int64_t most_ns) {
  timespec time{most_ns / 1'000'000'000, most_ns % 1'000'000'000};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, seen, &time, nullptr,
          0);
}

void wake_all(std::atomic<uint32_t>* word) { futex_wake(word, kMostThreads); }

}  // namespace hloom

// A pool of `threads` threads, the caller's counted; the others are made when first needed.
// Null: out of memory, or a number out of range.
HL_API hl_pool* hl_pool_new(int32_t threads) {
  if (threads < 1 || threads > hloom::kMostThreads) return nullptr;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignof(hl_pool), sizeof(hl_pool)) != 0) return nullptr;
  pthread_t* workers = static_cast<pthread_t*>(calloc(threads, sizeof(pthread_t)));
  if (workers == nullptr) {
    free(memory);
    return nullptr;
  }
  hl_pool* pool = new (memory) hl_pool;
  pool->threads = threads;
  pool->workers = workers;
  cpu_set_t set;
  bool known = sched_getaffinity(0, sizeof(set), &set) == 0;
  if (known && CPU_COUNT(&set) < threads) pool->spin_ns = hloom::kSpinCrowdedNs;
  pthread_once(&hloom::registry_once, hloom::watch_forks);
  pthread_mutex_lock(&hloom::registry_mutex);
  pool->next = hloom::registry;
  if (pool->next != nullptr) pool->next->previous = pool;
  hloom::registry = pool;
  pthread_mutex_unlock(&hloom::registry_mutex);
  return pool;
}

// Stops and joins the workers. No program may be using the pool.
HL_API void hl_pool_free(hl_pool* pool) {
  if (pool == nullptr) return;
  pthread_mutex_lock(&hloom::registry_mutex);
  if (pool->next != nullptr) pool->next->previous = pool->previous;
  if (pool->previous != nullptr) pool->previous->next = pool->next;
  if (hloom::registry == pool) hloom::registry = pool->next;
  pthread_mutex_unlock(&hloom::registry_mutex);
  pool->stop.store(1);
  pool->wake.fetch_add(1);
  hloom::futex_wake(&pool->wake, hloom::kMostThreads);
  for (int i = 0; i < pool->worker_count; ++i) pthread_join(pool->workers[i], nullptr);
  free(pool->workers);
  pool->~hl_pool();
  free(pool);
}

HL_API int32_t hl_pool_threads(const hl_pool* pool) { return hloom::pool_threads(pool); }

// How many workers exist, and how many of them sleep: for tests and for the curious.
HL_API int32_t hl_pool_workers(const hl_pool* pool) {
  return pool->started.load(std::memory_order_acquire) != 0 ? pool->worker_count : 0;
}
HL_API int32_t hl_pool_sleeping(const hl_pool* pool) {
  return static_cast<int32_t>(pool->sleep.load() >> 32);
}
