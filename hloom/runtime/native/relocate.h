// One relocation of an ELF object: what the instruction or word at a place becomes.
#ifndef HLOOM_RUNTIME_RELOCATE_H
#define HLOOM_RUNTIME_RELOCATE_H

#include <stdint.h>

namespace hloom {

enum class Patched { kDone, kTooFar, kMisaligned, kUnknown };

// The facts of a kind of relocation.
struct RelocationKind {
  uint8_t bytes;  // that it changes; 0: nothing to do; 255: not known
  bool uses_got;  // it names the symbol's entry in the table of addresses
  bool is_low;    // the symbol's address must lie in the lowest 2 GiB
};

struct Patch {
  uint32_t type;
  uint8_t* at;      // where the bytes are now
  uint64_t place;   // their address when the program runs
  uint64_t symbol;  // the address of the symbol, or of its entry in the table
  int64_t addend;
};

RelocationKind relocation_kind(uint16_t machine, uint32_t type);
Patched relocate(uint16_t machine, const Patch& patch);

// A jump to any address, `kStubBytes` long.
inline constexpr int kStubBytes = 16;
void write_stub(uint16_t machine, uint8_t* at, uint64_t target);

}  // namespace hloom

#endif
