// The spin pool: fork-join in about a tenth of a microsecond.
//
// How a region is cut and its chunks are taken: segments.h.
#ifndef HLOOM_RUNTIME_POOL_H
#define HLOOM_RUNTIME_POOL_H

#include <pthread.h>

#include <atomic>

#include "hl.h"
#include "segments.h"

namespace hloom {

inline constexpr int kMostSlots = 64;
inline constexpr int kMostThreads = 1024;
// Waking a sleeping thread takes 40 to 190 us until it runs, so shorter work is not worth it.
inline constexpr int64_t kWorthWakingNs = 100'000;
// Publishing a region costs two cache lines that other cores hold.
inline constexpr int64_t kWorthSharingNs = 400;
inline constexpr int64_t kSpinNs = 100'000;
// How long threads spin where there are more of them than processors.
inline constexpr int64_t kSpinCrowdedNs = 2'000;

// A slot of the pool for this program, or null if all are taken.
Slot* acquire_slot(hl_pool* pool);
void release_slot(hl_pool* pool, Slot* slot);
// Counts forks: a slot acquired before one is no longer ours.
uint32_t pool_generation(const hl_pool* pool);
int pool_threads(const hl_pool* pool);

// Runs a region of 2 to kMostChunks chunks with whoever helps. serial_ns < 0: unknown.
void run_shared(hl_pool* pool, Slot* slot, const ParallelRegion& region, uint32_t chunks,
                int64_t serial_ns);

// For regions whose owner does not work on them at once (executor.cc): publishing, how many chunks
// nobody has taken (chunks_left), whether all have been done, and taking back what is left. Who takes it back
// waits until the others are done.
void publish(hl_pool* pool, Slot* slot, const ParallelRegion& region, uint32_t chunks);
bool is_done(const Slot* slot, uint32_t chunks);
void withdraw_chunks(hl_pool* pool, Slot* slot, uint32_t chunks);
// Takes chunks of a slot until none is left, but none of regions of `except`; whether there was one.
bool help_region(hl_pool* pool, Slot* slot, hl_range_function except);
// How long a thread with nothing to do spins; a moment of that; sleeping while a word is `seen`.
int64_t pool_spin_ns(const hl_pool* pool);
void relax();
void nap(std::atomic<uint32_t>* word, uint32_t seen, int64_t most_ns);
void wake_all(std::atomic<uint32_t>* word);

int64_t now_ns();

}  // namespace hloom

#endif
