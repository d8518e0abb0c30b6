// The arena: blocks for programs and their results, kept when freed.
//
// Why: a fresh 64 MB output costs 10 to 20 ms of page faults, more than most kernels. So freed
// blocks are cached by size, and large ones lie on huge pages. What is cached beyond a limit is lent to
// the system: it takes the pages when memory is short, and only then (MADV_FREE), so a program that
// needs most of the memory does not pay for fresh pages in every run.
//
// The trick: each block has a header in the 64 bytes before it, which holds its size and its links
// in the lists of free blocks; so no table is needed, and freeing cannot fail for lack of memory.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "host.h"
#include "fork.h"
#include "guard.h"
#include "hl.h"

namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPage = 4096;
constexpr int64_t kHuge = 2 << 20;
constexpr int64_t kMostBytes = int64_t{1} << 46;
constexpr uint64_t kInUse = 0x686c5f626c6f636b;  // "hl_block"
constexpr uint64_t kFree = 0x686c5f66726565ff;
constexpr int kBins = 48 * 8;

struct alignas(kAlignment) Header {
  uint64_t mark;
  hl_arena* arena;
  int64_t size;  // bytes that may be used
  // Free blocks: neighbours in their bin, and in the order of freeing.
  Header* next;
  Header* previous;
  Header* younger;
  Header* older;
  int64_t is_lent;  // the system may take the pages of this free block
};
static_assert(sizeof(Header) == kAlignment);

struct Guard {
  explicit Guard(pthread_mutex_t* m) : mutex(m) { pthread_mutex_lock(mutex); }
  ~Guard() { pthread_mutex_unlock(mutex); }
  pthread_mutex_t* mutex;
};

// Eight sizes for each power of two: at most an eighth is wasted.
int64_t rounded(int64_t size) {
  if (size <= 8 * kAlignment) return size <= kAlignment ? kAlignment : (size + 63) & -64;
  int64_t step = int64_t{1} << (60 - __builtin_clzll(size - 1));
  if (size >= kHuge && step < kHuge) step = kHuge;
  return (size + step - 1) & -step;
}

// The bin of a rounded size; it grows with the size.
int bin_of(int64_t size) {
  int power = 63 - __builtin_clzll(size);
  int bin = power * 8 + static_cast<int>((size >> (power - 3)) & 7) - 6 * 8;
  return bin < kBins ? bin : kBins - 1;
}

bool is_huge(int64_t size) { return size >= kHuge; }

// A block of the system's, its header written. Null: out of memory.
Header* fresh(int64_t size) {
  char* block;
  if (!is_huge(size)) {
    void* memory = nullptr;
    if (posix_memalign(&memory, kAlignment, size + kAlignment) != 0) return nullptr;
    block = static_cast<char*>(memory) + kAlignment;
  } else {
    // One page for the header, then the block on a boundary of a huge page.
    size_t whole = size + kHuge + kPage;
    void* memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    uintptr_t start = reinterpret_cast<uintptr_t>(memory);
    uintptr_t aligned = (start + kPage + kHuge - 1) & -kHuge;
    uintptr_t end = start + whole;
    if (aligned - kPage > start) munmap(memory, aligned - kPage - start);
    if (end > aligned + size) munmap(reinterpret_cast<void*>(aligned + size), end - aligned - size);
    block = reinterpret_cast<char*>(aligned);
    madvise(block, size, MADV_HUGEPAGE);
  }
  Header* header = reinterpret_cast<Header*>(block) - 1;
  memset(header, 0, sizeof(Header));
  header->size = size;
  return header;
}

void give_back(Header* header) {
  if (is_huge(header->size)) {
    char* start = reinterpret_cast<char*>(header + 1) - kPage;
    munmap(start, header->size + kPage);
  } else {
    free(header);
  }
}

int64_t physical_bytes() {
  int64_t bytes = sysconf(_SC_PHYS_PAGES) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  return bytes > 0 ? bytes : int64_t{1} << 32;
}

}  // namespace

struct hl_arena {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  int64_t limit = kMostBytes;  // of bytes in use and cached
  int64_t cache_limit = 0;
  int64_t lent_limit = 0;  // of bytes cached, those lent to the system included
  int64_t in_use = 0, peak = 0, cached = 0, lent = 0, largest = 0;
  int64_t blocks = 0, allocations = 0, hits = 0;
  Header* youngest = nullptr;
  Header* oldest = nullptr;
  Header* bins[kBins] = {};

  void set_defaults() {
    cache_limit = physical_bytes() / 8;
    lent_limit = physical_bytes() / 2;
  }

  void put(Header* header) {
    header->mark = kFree;
    Header*& bin = bins[bin_of(header->size)];
    header->previous = nullptr;
    header->next = bin;
    if (bin != nullptr) bin->previous = header;
    bin = header;
    header->younger = nullptr;
    header->older = youngest;
    if (youngest != nullptr) youngest->younger = header;
    youngest = header;
    if (oldest == nullptr) oldest = header;
    cached += header->size;
  }

  void take(Header* header) {
    if (header->previous != nullptr) header->previous->next = header->next;
    else bins[bin_of(header->size)] = header->next;
    if (header->next != nullptr) header->next->previous = header->previous;
    if (header->younger != nullptr) header->younger->older = header->older;
    else youngest = header->older;
    if (header->older != nullptr) header->older->younger = header->younger;
    else oldest = header->younger;
    cached -= header->size;
    if (header->is_lent) lent -= header->size;
    header->is_lent = 0;
  }

  // A cached block that fits without wasting more than an eighth, the last freed first: it may
  // still be in the processor's cache.
  Header* find(int64_t size) {
    int first = bin_of(size);
    for (int bin = first; bin <= first + 1 && bin < kBins; ++bin)
      for (Header* header = bins[bin]; header != nullptr; header = header->next)
        if (header->size >= size && header->size - size <= size / 8) return header;
    return nullptr;
  }

  void trim(int64_t keep) {
    while (cached > keep) {
      Header* header = oldest;
      take(header);
      give_back(header);
    }
  }

  // Keeps the limits of what is cached: the oldest blocks are lent to the system, or given back
  // where that cannot be done.
  void settle() {
    trim(lent_limit > cache_limit ? lent_limit : cache_limit);
    Header* header = oldest;
    while (header != nullptr && cached - lent > cache_limit) {
      Header* next = header->younger;
      if (!header->is_lent) {
        if (is_huge(header->size) && madvise(header + 1, header->size, MADV_FREE) == 0) {
          header->is_lent = 1;
          lent += header->size;
        } else {
          take(header);
          give_back(header);
        }
      }
      header = next;
    }
  }

  void count(int64_t size) {
    in_use += size;
    if (in_use > peak) peak = in_use;
    if (size > largest) largest = size;
    ++blocks;
  }

  Header* allocate(int64_t size) {
    ++allocations;
    if (Header* header = find(size)) {
      ++hits;
      take(header);
      return header;
    }
    if (size > limit - in_use) return nullptr;
    if (size > limit - in_use - cached) trim(limit - in_use - size);
    Header* header = fresh(size);
    if (header == nullptr && cached > 0) {
      trim(0);
      header = fresh(size);
    }
    return header;
  }
};

// The arena of contexts that name none; lives as long as the process.
HL_API hl_arena* hl_arena_of_process() {
  alignas(hl_arena) static char place[sizeof(hl_arena)];
  static hl_arena* arena = [] {
    hl_arena* made = new (place) hl_arena;
    made->set_defaults();
    hloom::free_in_forks(&made->mutex);
    return made;
  }();
  return arena;
}

namespace {
// Null stands for the arena of the process everywhere.
hl_arena* or_process(hl_arena* arena) { return arena != nullptr ? arena : hl_arena_of_process(); }
}  // namespace

// An empty arena; null: out of memory. It caches up to an eighth of the machine's memory, and as much
// more as makes a half lies there for the system to take.
HL_API hl_arena* hl_arena_new() {
  hl_arena* arena = new (std::nothrow) hl_arena;
  if (arena != nullptr) arena->set_defaults();
  return arena;
}

// Frees the cache and the arena; blocks in use are then nobody's, so there may be none: returns
// HL_FAILED_PRECONDITION and does nothing if there are.
HL_API int32_t hl_arena_delete(hl_arena* arena) {
  if (arena == nullptr) return HL_OK;
  pthread_mutex_lock(&arena->mutex);
  bool used = arena->blocks != 0;
  if (!used) arena->trim(0);
  pthread_mutex_unlock(&arena->mutex);
  if (used) return HL_FAILED_PRECONDITION;
  delete arena;
  return HL_OK;
}

namespace {

// Under HLOOM_GUARD a block has pages of its own, and none is cached; it is counted as ever.
void* guarded(hl_arena* arena, int64_t size_bytes, int64_t alignment) {
  int64_t size = rounded(size_bytes);
  void* block = hl_guard_alloc(size_bytes, alignment, 0);
  {
    Guard guard(&arena->mutex);
    ++arena->allocations;
    if (block != nullptr && size <= arena->limit - arena->in_use) {
      arena->count(size);
      return block;
    }
  }
  hl_guard_free(block);
  return nullptr;
}

int32_t free_guarded(hl_arena* arena, void* memory) {
  int64_t size = hl_guard_size(memory);
  if (size < 0) return HL_INVALID_ARGUMENT;
  hl_guard_check(&memory, 1);
  hl_guard_free(memory);
  Guard guard(&arena->mutex);
  arena->in_use -= rounded(size);
  --arena->blocks;
  return HL_OK;
}

}  // namespace

// size_bytes bytes, aligned to 64, or to 2 MiB from 2 MiB on; not cleared. Null: out of memory, over
// the limit, or a negative size. 0 bytes give a block of its own, too. Under HLOOM_GUARD aligned as
// the size allows, so that the block ends with its page: enough for arrays.
HL_API void* hl_arena_alloc(hl_arena* arena, int64_t size_bytes) {
  if (size_bytes < 0 || size_bytes > kMostBytes) return nullptr;
  arena = or_process(arena);
  if (hloom::guarding) return guarded(arena, size_bytes, 0);
  int64_t size = rounded(size_bytes);
  Guard guard(&arena->mutex);
  Header* header = arena->allocate(size);
  if (header == nullptr) return nullptr;
  header->mark = kInUse;
  header->arena = arena;
  arena->count(header->size);
  return header + 1;
}

// The same for working memory: aligned to 64 under HLOOM_GUARD, too.
HL_API void* hl_arena_alloc_aligned(hl_arena* arena, int64_t size_bytes) {
  if (!hloom::guarding || size_bytes < 0 || size_bytes > kMostBytes)
    return hl_arena_alloc(arena, size_bytes);
  return guarded(or_process(arena), size_bytes, kAlignment);
}

// Null is fine. HL_INVALID_ARGUMENT, and nothing done, for what is no block in use of this arena
// (told by its header: only for addresses that may be read at all).
HL_API int32_t hl_arena_free(hl_arena* arena, void* memory) {
  if (memory == nullptr) return HL_OK;
  if (hloom::guarding) return free_guarded(or_process(arena), memory);
  if (reinterpret_cast<uintptr_t>(memory) % kAlignment != 0) return HL_INVALID_ARGUMENT;
  arena = or_process(arena);
  Header* header = static_cast<Header*>(memory) - 1;
  Guard guard(&arena->mutex);
  if (header->mark != kInUse || header->arena != arena) return HL_INVALID_ARGUMENT;
  arena->in_use -= header->size;
  --arena->blocks;
  arena->put(header);
  if (arena->cached > arena->cache_limit) arena->settle();
  return HL_OK;
}

// Gives cached blocks back to the system, the oldest first, until `keep_bytes` are cached.
HL_API void hl_arena_trim(hl_arena* arena, int64_t keep_bytes) {
  arena = or_process(arena);
  Guard guard(&arena->mutex);
  arena->trim(keep_bytes < 0 ? 0 : keep_bytes);
}

// The most bytes that may be in use and cached, and that may be cached (negative: as before). Where
// the second is set nothing is lent.
HL_API void hl_arena_set_limits(hl_arena* arena, int64_t limit_bytes, int64_t cache_bytes) {
  arena = or_process(arena);
  Guard guard(&arena->mutex);
  if (limit_bytes >= 0) arena->limit = limit_bytes < kMostBytes ? limit_bytes : kMostBytes;
  if (cache_bytes >= 0) arena->cache_limit = arena->lent_limit = cache_bytes;
  arena->settle();
}

// From here on the peak is counted anew.
HL_API void hl_arena_clear_peak(hl_arena* arena) {
  arena = or_process(arena);
  Guard guard(&arena->mutex);
  arena->peak = arena->in_use;
}

// Writes 8 numbers: bytes in use, their peak, bytes cached, blocks in use, allocations so far, those
// served from the cache, the limit, the limit of the cache.
HL_API void hl_arena_statistics(hl_arena* arena, int64_t* out) {
  arena = or_process(arena);
  Guard guard(&arena->mutex);
  int64_t values[8] = {arena->in_use,      arena->peak, arena->cached, arena->blocks,
                       arena->allocations, arena->hits, arena->limit,  arena->cache_limit};
  memcpy(out, values, sizeof(values));
}

// The bytes of the largest block that was ever taken.
HL_API int64_t hl_arena_largest(hl_arena* arena) {
  arena = or_process(arena);
  Guard guard(&arena->mutex);
  return arena->largest;
}
