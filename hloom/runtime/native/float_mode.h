// The floating-point modes that programs and their host's functions run in.
#ifndef HLOOM_RUNTIME_FLOAT_MODE_H
#define HLOOM_RUNTIME_FLOAT_MODE_H

#include <stdint.h>

namespace hloom {

// Rounds to nearest, traps nothing, and takes subnormal numbers for zero, as XLA:CPU does (with
// HLOOM_SUBNORMALS=keep it keeps them); returns what was set before.
uint64_t set_program_float_mode();
void restore_float_mode(uint64_t mode);

// While it lives this thread computes as IEEE 754 has it by default: rounds to nearest, traps
// nothing, keeps subnormal numbers. For functions of the host that a program calls.
class HostFloatMode {
 public:
  HostFloatMode();
  ~HostFloatMode();
  HostFloatMode(const HostFloatMode&) = delete;
  HostFloatMode& operator=(const HostFloatMode&) = delete;

 private:
  uint64_t before_;
};

}  // namespace hloom

#endif
