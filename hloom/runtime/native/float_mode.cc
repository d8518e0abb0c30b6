// The floating-point modes that programs and their host's functions run in.
#include "float_mode.h"

#include <stdlib.h>
#include <string.h>

namespace hloom {
namespace {

#if defined(__x86_64__)

// Rounding, masks of exceptions, and what becomes of subnormal operands and results; the other
// bits are flags of what has happened. (Intel's manual of the architecture, volume 1, MXCSR.)
constexpr uint64_t kControl = 0xffc0;
constexpr uint64_t kDefault = 0x1f80;
constexpr uint64_t kSubnormalsAreZero = 0x8040;

uint64_t mode_now() { return __builtin_ia32_stmxcsr(); }
void set_mode(uint64_t mode) { __builtin_ia32_ldmxcsr(static_cast<uint32_t>(mode)); }

#elif defined(__aarch64__)

// (Arm's architecture reference manual, FPCR.)
constexpr uint64_t kControl = ~uint64_t{0};
constexpr uint64_t kDefault = 0;
constexpr uint64_t kSubnormalsAreZero = uint64_t{1} << 24;

uint64_t mode_now() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void set_mode(uint64_t mode) { asm volatile("msr fpcr, %0" ::"r"(mode)); }

#endif

// Sets a mode if another one is set, and returns that.
uint64_t exchange(uint64_t mode) {
  uint64_t before = mode_now();
  if ((before & kControl) != mode) set_mode(mode);
  return before;
}

uint64_t mode_of_programs() {
  const char* asked = getenv("HLOOM_SUBNORMALS");
  bool kept = asked != nullptr && strcmp(asked, "keep") == 0;
  return kept ? kDefault : kDefault | kSubnormalsAreZero;
}

}  // namespace

uint64_t set_program_float_mode() {
  static const uint64_t mode = mode_of_programs();
  return exchange(mode);
}

void restore_float_mode(uint64_t mode) {
  if (((mode_now() ^ mode) & kControl) != 0) set_mode(mode);
}

HostFloatMode::HostFloatMode() : before_(exchange(kDefault)) {}
HostFloatMode::~HostFloatMode() { restore_float_mode(before_); }

}  // namespace hloom
