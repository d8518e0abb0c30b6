// The floating-point mode that programs run in.
#ifndef HLOOM_RUNTIME_FLOAT_MODE_H
#define HLOOM_RUNTIME_FLOAT_MODE_H

#include <stdint.h>

namespace hloom {

// Rounds to nearest, keeps denormals, traps nothing; returns what was set before.
uint64_t set_default_float_mode();
void restore_float_mode(uint64_t mode);

}  // namespace hloom

#endif
