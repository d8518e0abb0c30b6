// The floating-point modes that programs and their host's functions run in.
#include "float_mode.h"

#include <stdlib.h>
#include <string.h>

namespace hloom {
namespace {

#if defined(__x86_64__)

// (Intel's manual of the architecture, volume 1, MXCSR.)
constexpr uint64_t kSubnormalsAreZero = 0x8040;

uint64_t mode_now() { return __builtin_ia32_stmxcsr(); }

void set_mode(uint64_t mode) { __builtin_ia32_ldmxcsr(static_cast<uint32_t>(mode)); }

// All bits but the flags of what has happened.
uint64_t control(uint64_t mode) { return mode & 0xffc0; }

#elif defined(__aarch64__)

// (Arm's architecture reference manual, FPCR.)
constexpr uint64_t kSubnormalsAreZero = uint64_t{1} << 24;

uint64_t mode_now() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}

void set_mode(uint64_t mode) { asm volatile("msr fpcr, %0" ::"r"(mode)); }

uint64_t control(uint64_t mode) { return mode; }

#else  // one mode, which keeps subnormal numbers

constexpr uint64_t kSubnormalsAreZero = 0;

uint64_t mode_now() { return 0; }

void set_mode(uint64_t) {}

uint64_t control(uint64_t mode) { return mode; }

#endif

uint64_t mode_of_programs() {
  const char* asked = getenv("HLOOM_SUBNORMALS");
  bool kept = asked != nullptr && strcmp(asked, "keep") == 0;
  return kept ? kHostFloatMode : kHostFloatMode | kSubnormalsAreZero;
}

}  // namespace

const uint64_t program_float_mode = mode_of_programs();

uint64_t set_float_mode(uint64_t mode) {
  uint64_t before = mode_now();
  if (control(before) != control(mode)) set_mode(mode);
  return before;
}

}  // namespace hloom
