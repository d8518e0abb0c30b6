// What processor this is, by what it says of itself: the same questions as a compiler asks it.
#include "hl.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace {

#if defined(__x86_64__)
struct Answer {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// The answer to one question; zeros where the processor does not know it.
Answer asked(uint32_t leaf, uint32_t part) {
  Answer a;
  if (leaf <= __get_cpuid_max(leaf & 0x80000000u, nullptr)) {
    __cpuid_count(leaf, part, a.eax, a.ebx, a.ecx, a.edx);
  }
  return a;
}

// Which registers the system saves, so that programs may use them; 0 if it may not be asked.
uint64_t saved_registers() {
  if (!(asked(1, 0).ecx & bit_OSXSAVE)) return 0;
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}
#endif

}  // namespace

// Fills words with the processor's name (12 words of text) and then all that says which
// instructions it has. Returns how many words there are, 0 where it cannot be asked; no more than
// count are written. What differs from core to core of one processor is left out.
HL_API int32_t hl_processor(uint32_t* words, int32_t count) {
  int32_t size = 0;
#if defined(__x86_64__)
  auto put = [&](uint32_t word) {
    if (size < count) words[size] = word;
    ++size;
  };
  auto put_all = [&](Answer a) {
    put(a.eax);
    put(a.ebx);
    put(a.ecx);
    put(a.edx);
  };
  for (uint32_t leaf = 0x80000002u; leaf <= 0x80000004u; ++leaf) put_all(asked(leaf, 0));
  put_all(asked(0, 0));
  Answer first = asked(1, 0);
  first.ebx = 0;  // the number of this core
  put_all(first);
  put_all(asked(7, 0));
  put_all(asked(7, 1));
  put_all(asked(7, 2));
  put(asked(0xd, 1).eax);
  put_all(asked(0x14, 0));
  put_all(asked(0x19, 0));
  put_all(asked(0x1d, 1));
  put_all(asked(0x1e, 0));
  put_all(asked(0x24, 0));
  Answer extended = asked(0x80000001u, 0);
  extended.ebx = 0;
  put_all(extended);
  put(asked(0x80000008u, 0).ebx);
  uint64_t saved = saved_registers();
  put(static_cast<uint32_t>(saved));
  put(static_cast<uint32_t>(saved >> 32));
#else
  (void)words;
  (void)count;
#endif
  return size;
}
