// The floating-point mode that programs run in, whatever the host has set.
#include "float_mode.h"

namespace hloom {

uint64_t set_default_float_mode() {
#if defined(__x86_64__)
  uint32_t before = __builtin_ia32_stmxcsr();
  // All exceptions masked, round to nearest, denormals kept; the sticky flags stay as they are.
  if ((before & 0xffc0) != 0x1f80) __builtin_ia32_ldmxcsr(0x1f80);
  return before;
#elif defined(__aarch64__)
  uint64_t before;
  asm volatile("mrs %0, fpcr" : "=r"(before));
  if (before != 0) asm volatile("msr fpcr, %0" ::"r"(uint64_t{0}));
  return before;
#endif
}

void restore_float_mode(uint64_t mode) {
#if defined(__x86_64__)
  if ((mode & 0xffc0) != 0x1f80) __builtin_ia32_ldmxcsr(static_cast<uint32_t>(mode));
#elif defined(__aarch64__)
  if (mode != 0) asm volatile("msr fpcr, %0" ::"r"(mode));
#endif
}

}  // namespace hloom
