// Guards: blocks of memory between protected pages, for HLOOM_GUARD=1 and the debug executor.
//
// Why: a kernel that writes some bytes past its result mostly hits memory that is nobody's, and no
// test sees it. Here a block ends where a page begins that nobody may touch, so the first byte out of
// bounds is a fault, and the handler says which kernel missed which buffer. What alignment
// leaves between block and page holds a pattern, a NaN in nearly every float type, as the block itself does
// until somebody writes it: writes there are found afterwards, reads show in the results.
#include "guard.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <set>
#include <utility>

#include "fork.h"

namespace hloom {

const bool guarding = [] {
  const char* asked = getenv("HLOOM_GUARD");
  return asked != nullptr && *asked != 0 && strcmp(asked, "0") != 0;
}();

namespace {

constexpr int kPattern = 0xff;
constexpr int64_t kMostAlignment = 64;
constexpr int64_t kMostFilled = 256 << 20;
constexpr size_t kFreedKept = 512;  // mappings that stay forbidden after their block was freed

// One mapping: a protected page, the pages with the block, a protected page.
struct Guarded {
  char* start;  // of the pages between
  char* end;
  char* block;
  int64_t size;
  bool is_freed;
  char name[160];
};

struct State {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  std::map<uintptr_t, Guarded> all;  // by the end of the pages between, of blocks in use and freed
  std::map<const void*, uintptr_t> in_use;
  std::deque<uintptr_t> freed;
  std::set<const hl_loaded*> code;
  int64_t page = sysconf(_SC_PAGESIZE);
  struct sigaction previous[2];
  bool is_handling = false;
  int report_to = STDERR_FILENO;
};

// Lives as long as the process: threads may still run when it ends.
State& state() {
  static State* made = [] {
    auto* fresh = new State;
    free_in_forks(&fresh->mutex);
    return fresh;
  }();
  return *made;
}

struct Locked {
  Locked() { pthread_mutex_lock(&state().mutex); }
  ~Locked() { pthread_mutex_unlock(&state().mutex); }
};

void say(const char* format, ...) __attribute__((format(printf, 1, 2)));
void say(const char* format, ...) {
  char line[1024];
  va_list list;
  va_start(list, format);
  int length = vsnprintf(line, sizeof(line), format, list);
  va_end(list);
  if (length > static_cast<int>(sizeof(line)) - 1) length = sizeof(line) - 1;
  if (write(state().report_to, line, length) < 0) return;
}

// Where code is: a kernel of a program, or a function of a library.
void say_code(uintptr_t at) {
  const char* best = nullptr;
  uint64_t begin = 0;
  for (const hl_loaded* loaded : state().code) {
    uint64_t base = reinterpret_cast<uint64_t>(loaded->base);
    if (at < base || at >= base + loaded->size) continue;
    for (const auto& [name, address] : loaded->symbols)
      if (address <= at && address >= begin) best = name.c_str(), begin = address;
  }
  Dl_info info;
  if (best != nullptr) {
    say("%s+%#llx", best, static_cast<unsigned long long>(at - begin));
  } else if (dladdr(reinterpret_cast<void*>(at), &info) != 0 && info.dli_fname != nullptr) {
    say("%s of %s", info.dli_sname == nullptr ? "a function" : info.dli_sname, info.dli_fname);
  } else {
    say("code at %#llx", static_cast<unsigned long long>(at));
  }
}

// The mapping that an address lies in or beside, or null. The protected pages are part of it.
const Guarded* around(uintptr_t address) {
  const State& s = state();
  auto found =
      s.all.lower_bound(address < static_cast<uintptr_t>(s.page) ? 0 : address - s.page + 1);
  if (found == s.all.end()) return nullptr;
  const Guarded& g = found->second;
  return address + s.page >= reinterpret_cast<uintptr_t>(g.start) ? &g : nullptr;
}

void say_where(const Guarded& g, uintptr_t address) {
  uintptr_t block = reinterpret_cast<uintptr_t>(g.block), end = block + g.size;
  if (address < block)
    say("%llu bytes before the start", static_cast<unsigned long long>(block - address));
  else if (address >= end)
    say("%llu bytes behind the end", static_cast<unsigned long long>(address - end));
  else say("byte %llu", static_cast<unsigned long long>(address - block));
  say(" of %s (%lld bytes at %p%s)", g.name[0] != 0 ? g.name : "a block of the arena",
      static_cast<long long>(g.size), static_cast<void*>(g.block), g.is_freed ? ", freed" : "");
}

const char* kind_of_access(const ucontext_t* context) {
#if defined(__x86_64__)
  return (context->uc_mcontext.gregs[REG_ERR] & 2) != 0 ? "wrote" : "read";
#else
  return "touched";
#endif
}

uintptr_t instruction_of(const ucontext_t* context) {
#if defined(__x86_64__)
  return context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
  return context->uc_mcontext.pc;
#else
  return 0;
#endif
}

// Says what was missed, if it was one of the blocks; then the fault goes where it went before.
void on_fault(int number, siginfo_t* info, void* raw) {
  State& s = state();
  sigaction(SIGSEGV, &s.previous[0], nullptr);
  sigaction(SIGBUS, &s.previous[1], nullptr);
  const auto* context = static_cast<const ucontext_t*>(raw);
  auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  // Whoever holds it will let go soon, unless it is the thread that failed.
  bool locked = false;
  for (int k = 0; k < 200 && !locked; ++k) {
    locked = pthread_mutex_trylock(&s.mutex) == 0;
    if (!locked) usleep(1000);
  }
  if (const Guarded* g = locked ? around(address) : nullptr) {
    say("\nHLOOM_GUARD: ");
    say_code(instruction_of(context));
    say(" %s ", kind_of_access(context));
    say_where(*g, address);
    say("\nThis is a bug of hloom: please report it with the program.\n");
  }
  if (locked) pthread_mutex_unlock(&s.mutex);
  if (info->si_code <= 0) raise(number);  // sent by somebody: it would not come again by itself
}

void handle_faults(State* s) {
  if (s->is_handling) return;
  s->is_handling = true;
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &s->previous[0]);
  sigaction(SIGBUS, &action, &s->previous[1]);
}

void unmap(const State& s, const Guarded& g) {
  munmap(g.start - s.page, g.end - g.start + 2 * s.page);
}

// Bytes of [from, to) that do not hold the pattern any more: the first and the last, or null.
struct Changed {
  const char* first = nullptr;
  const char* last = nullptr;
};

Changed changed(const char* from, const char* to) {
  Changed found;
  for (const char* p = from; p < to; ++p)
    if (static_cast<unsigned char>(*p) != kPattern) {
      if (found.first == nullptr) found.first = p;
      found.last = p;
    }
  return found;
}

int64_t stray(const Guarded& g) {
  const char* end = g.block + g.size;
  if (Changed before = changed(g.start, g.block); before.first != nullptr)
    return before.first - g.block;
  if (Changed after = changed(end, g.end); after.first != nullptr) return after.last + 1 - end;
  return 0;
}

// The pattern everywhere; of what is very large in the outer parts only, for others need memory, too.
void fill(char* from, char* to) {
  if (to - from <= kMostFilled) {
    memset(from, kPattern, to - from);
  } else {
    memset(from, kPattern, kMostFilled / 2);
    memset(to - kMostFilled / 2, kPattern, kMostFilled / 2);
  }
}

Guarded* find(const void* block) {
  State& s = state();
  auto found = s.in_use.find(block);
  return found == s.in_use.end() ? nullptr : &s.all.find(found->second)->second;
}

}  // namespace

// The scratch memory of the kernels that a thread has run.
struct Scratch {
  std::map<std::pair<int64_t, int64_t>, void*> blocks;
  ~Scratch() {
    for (const auto& [key, block] : blocks) hl_guard_free(block);
  }
};

void remember_code(const hl_loaded* loaded) {
  Locked locked;
  state().code.insert(loaded);
}

void forget_code(const hl_loaded* loaded) {
  Locked locked;
  state().code.erase(loaded);
}

}  // namespace hloom

HL_API void* hl_guard_alloc(int64_t size_bytes, int64_t alignment, int64_t margin_bytes) {
  // The pattern makes pages of the system's, so that what could never be there must not be asked for.
  static const int64_t most = sysconf(_SC_PHYS_PAGES) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  if (size_bytes < 0 || size_bytes > most || margin_bytes < 0 || margin_bytes > most)
    return nullptr;
  if (alignment == 0) {
    int64_t divides = size_bytes & -size_bytes;
    alignment = divides == 0 || divides > hloom::kMostAlignment ? hloom::kMostAlignment : divides;
  }
  hloom::State& s = hloom::state();
  int64_t inside = (2 * margin_bytes + size_bytes + alignment + s.page - 1) & -s.page;
  int64_t whole = inside + 2 * s.page;
  void* memory =
      mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  char* start = static_cast<char*>(memory) + s.page;
  if (mprotect(start, inside, PROT_READ | PROT_WRITE) != 0) {
    munmap(memory, whole);
    return nullptr;
  }
  hloom::fill(start, start + inside);
  hloom::Guarded g{};
  g.start = start;
  g.end = start + inside;
  g.size = size_bytes;
  uintptr_t place = reinterpret_cast<uintptr_t>(g.end) - margin_bytes - size_bytes;
  g.block = reinterpret_cast<char*>(place & -alignment);
  auto key = reinterpret_cast<uintptr_t>(g.end);
  hloom::Locked locked;
  s.all[key] = g;
  s.in_use[g.block] = key;
  hloom::handle_faults(&s);
  return g.block;
}

HL_API int32_t hl_guard_free(void* block) {
  hloom::Locked locked;
  hloom::State& s = hloom::state();
  hloom::Guarded* g = hloom::find(block);
  if (g == nullptr) return 0;
  s.in_use.erase(block);
  g->is_freed = true;
  // The memory goes back, the addresses stay taken.
  size_t size = g->end - g->start;
  void* reserved = mmap(g->start, size, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) mprotect(g->start, size, PROT_NONE);
  s.freed.push_back(reinterpret_cast<uintptr_t>(g->end));
  if (s.freed.size() > hloom::kFreedKept) {
    auto oldest = s.all.find(s.freed.front());
    s.freed.pop_front();
    hloom::unmap(s, oldest->second);
    s.all.erase(oldest);
  }
  return 1;
}

HL_API void* hl_guard_scratch(int64_t number, int64_t size_bytes) {
  thread_local hloom::Scratch scratch;
  void*& block = scratch.blocks[{number, size_bytes}];
  if (block == nullptr) {
    block = hl_guard_alloc(size_bytes, 0, 0);
    if (block == nullptr) {
      hloom::say("HLOOM_GUARD: no memory for %lld bytes of scratch\n",
                 static_cast<long long>(size_bytes));
      abort();
    }
    hl_guard_name(block, "scratch memory of the kernel");
    return block;
  }
  hl_guard_check(&block, 1);
  memset(block, hloom::kPattern, size_bytes);
  return block;
}

HL_API int64_t hl_guard_size(const void* block) {
  hloom::Locked locked;
  const hloom::Guarded* g = hloom::find(block);
  return g == nullptr ? -1 : g->size;
}

HL_API int64_t hl_guard_stray(const void* block) {
  hloom::Locked locked;
  const hloom::Guarded* g = hloom::find(block);
  return g == nullptr ? 0 : hloom::stray(*g);
}

HL_API void hl_guard_name(void* block, const char* name) {
  hloom::Locked locked;
  if (hloom::Guarded* g = hloom::find(block)) snprintf(g->name, sizeof(g->name), "%s", name);
}

HL_API void hl_guard_report_to(int32_t descriptor) {
  hloom::Locked locked;
  hloom::state().report_to = descriptor;
}

HL_API void hl_guard_read_only(void* block, int32_t is_read_only) {
  hloom::Locked locked;
  if (hloom::Guarded* g = hloom::find(block))
    mprotect(g->start, g->end - g->start, is_read_only != 0 ? PROT_READ : PROT_READ | PROT_WRITE);
}

HL_API void hl_guard_check(void* const* blocks, int64_t count) {
  hloom::Locked locked;
  for (int64_t k = 0; k < count; ++k) {
    const hloom::Guarded* g = hloom::find(blocks[k]);
    int64_t distance = g == nullptr ? 0 : hloom::stray(*g);
    if (distance == 0) continue;
    hloom::say(
        "\nHLOOM_GUARD: a step wrote up to %lld bytes %s of %s (%lld bytes at %p)\n"
        "This is a bug of hloom: please report it with the program. `Executable.debug` says "
        "which step.\n",
        static_cast<long long>(distance < 0 ? -distance : distance),
        distance < 0 ? "before the start" : "behind the end",
        g->name[0] != 0 ? g->name : "a block of the arena", static_cast<long long>(g->size),
        static_cast<void*>(g->block));
    abort();
  }
}
