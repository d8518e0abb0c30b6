// How a region of a pool is cut, and how threads take its chunks.
//
// A region is cut into a segment for each thread, consecutive chunks, so that a thread meets in one
// region what it wrote in the one before: a core reads what stands in its own cache four to six
// times as fast as what stands in another's. A segment is published as one 64-bit word, (epoch,
// first chunk left, end of the chunks left), beside the region's function. Whoever shortens it by
// compare-and-swap owns a chunk, the caller too; who is done with its own segment takes chunks of
// others, from the other end. So nothing waits for a worker that comes late or never: the caller
// waits only for chunks that were taken. As an owner's chunk is not done, its region cannot end, so
// what it read beside the word belongs to the same epoch as the word it swapped.
#ifndef HLOOM_RUNTIME_SEGMENTS_H
#define HLOOM_RUNTIME_SEGMENTS_H

#include <atomic>

#include "hl.h"

namespace hloom {

// Threads beyond share segments: 64 words are eight lines of a cache.
inline constexpr uint32_t kMostSegments = 64;
// Of one region: a word counts the chunks of its segment in 16 bits.
inline constexpr int64_t kMostChunks = 0xffff;

// Where one program publishes its regions; held while the program runs.
struct Slot {
  alignas(64) std::atomic<hl_range_function> fn{nullptr};
  std::atomic<void*> args{nullptr};
  std::atomic<int64_t> n{0};
  std::atomic<int64_t> grain{1};
  std::atomic<uint32_t> chunks{0};
  std::atomic<uint32_t> segments{1};
  // epoch << 32 | first << 16 | end, of chunks in the segment; three share a line with the above.
  std::atomic<uint64_t> words[kMostSegments] = {};
  uint32_t epoch = 0;   // of the owner alone, as is the next
  int64_t owed_ns = 0;  // work that sleeping workers did not share since they were last woken

  alignas(64) std::atomic<uint32_t> done{0};  // chunks that workers have finished
  std::atomic<uint32_t> waiting{0};           // the owner sleeps on `done`
};

struct ParallelRegion {
  hl_range_function fn;
  void* args;
  int64_t n, grain;

  void run(int64_t chunk) const {
    int64_t begin = chunk * grain;
    fn(args, begin, n - begin < grain ? n : begin + grain);
  }
};

inline uint32_t first_of(uint64_t word) { return static_cast<uint32_t>(word) >> 16; }
inline uint32_t end_of(uint64_t word) { return static_cast<uint32_t>(word) & 0xffff; }

// The first chunk of a segment.
inline uint32_t segment_begin(uint32_t chunks, uint32_t segments, uint32_t segment) {
  return (chunks * segment + segments - 1) / segments;
}

// A chunk that is the caller's to run.
struct Claim {
  ParallelRegion region{};
  int64_t chunk = 0;
};

// Takes a chunk of one segment; false: none is left, or it is of a region of `except`. Threads go
// through segments of odd numbers backwards, so that two neighbours end where they meet.
inline bool claim_of(Slot& slot, uint32_t segment, bool is_own, hl_range_function except,
                     Claim* claim) {
  bool forwards = is_own == ((segment & 1) == 0);
  uint64_t word = slot.words[segment].load(std::memory_order_acquire);
  while (first_of(word) != end_of(word)) {
    claim->region = {
        slot.fn.load(std::memory_order_relaxed), slot.args.load(std::memory_order_relaxed),
        slot.n.load(std::memory_order_relaxed), slot.grain.load(std::memory_order_relaxed)};
    if (claim->region.fn == except) return false;
    uint32_t begin = segment_begin(slot.chunks.load(std::memory_order_relaxed),
                                   slot.segments.load(std::memory_order_relaxed), segment);
    uint64_t shorter = forwards ? word + (1 << 16) : word - 1;
    if (!slot.words[segment].compare_exchange_weak(word, shorter, std::memory_order_acq_rel,
                                                   std::memory_order_acquire))
      continue;
    claim->chunk = begin + (forwards ? first_of(word) : end_of(word) - 1);
    return true;
  }
  return false;
}

// Takes a chunk of a slot, of the segment of the thread of this number if there is one left there.
// Slots have at most so many segments (`limit`).
inline bool claim_chunk(Slot& slot, uint32_t limit, uint32_t number, hl_range_function except,
                        Claim* claim) {
  uint32_t segments = slot.segments.load(std::memory_order_relaxed);
  uint32_t own = number < segments ? number : number % segments;
  for (uint32_t k = 0; k < limit; ++k) {
    uint32_t segment = own + k < limit ? own + k : own + k - limit;
    if (claim_of(slot, segment, k == 0, except, claim)) return true;
  }
  return false;
}

// Publishes a region, in `limit` segments if there are as many chunks.
inline void put(Slot* slot, const ParallelRegion& region, uint32_t chunks, uint32_t limit) {
  uint32_t segments = chunks < limit ? chunks : limit;
  slot->fn.store(region.fn, std::memory_order_relaxed);
  slot->args.store(region.args, std::memory_order_relaxed);
  slot->n.store(region.n, std::memory_order_relaxed);
  slot->grain.store(region.grain, std::memory_order_relaxed);
  slot->chunks.store(chunks, std::memory_order_relaxed);
  slot->segments.store(segments, std::memory_order_relaxed);
  slot->done.store(0, std::memory_order_relaxed);
  uint64_t epoch = uint64_t{++slot->epoch} << 32;
  uint32_t begin = 0;
  for (uint32_t k = 0; k < segments; ++k) {
    uint32_t end = segment_begin(chunks, segments, k + 1);
    slot->words[k].store(epoch | (end - begin), std::memory_order_release);
    begin = end;
  }
}

// How many chunks nobody has taken.
inline uint32_t chunks_left(const Slot* slot) {
  uint32_t left = 0;
  uint32_t segments = slot->segments.load();
  for (uint32_t k = 0; k < segments; ++k) {
    uint64_t word = slot->words[k].load();
    left += end_of(word) - first_of(word);
  }
  return left;
}

// Takes back what nobody has taken: how many chunks.
inline uint32_t empty(Slot* slot) {
  uint32_t withdrawn = 0;
  for (std::atomic<uint64_t>& segment : slot->words) {
    uint64_t word = segment.load(std::memory_order_relaxed);
    while (!segment.compare_exchange_weak(word, word >> 32 << 32, std::memory_order_acq_rel,
                                          std::memory_order_relaxed)) {
    }
    withdrawn += end_of(word) - first_of(word);
  }
  return withdrawn;
}

}  // namespace hloom

#endif
