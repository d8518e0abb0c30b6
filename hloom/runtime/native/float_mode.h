// The floating-point modes that programs and their host's functions run in.
#ifndef HLOOM_RUNTIME_FLOAT_MODE_H
#define HLOOM_RUNTIME_FLOAT_MODE_H

#include <stdint.h>

namespace hloom {

// Both round to nearest and trap nothing. The host's keeps subnormal numbers, as IEEE 754 has it;
// that of programs takes them for zero, as XLA:CPU does, unless HLOOM_SUBNORMALS=keep.
#if defined(__x86_64__)
constexpr uint64_t kHostFloatMode = 0x1f80;
#else
constexpr uint64_t kHostFloatMode = 0;
#endif
extern const uint64_t program_float_mode;

// Sets the mode of this thread; returns what was set before, which can be set again.
uint64_t set_float_mode(uint64_t mode);

}  // namespace hloom

#endif
