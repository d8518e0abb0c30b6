// Relocations of x86-64 (System V psABI, 4.4) and of AArch64 (ELF for the Arm 64-bit architecture,
// 5.7), as far as LLVM emits them for the small code model; S, A, P are the manuals' letters.
#include "relocate.h"

#include <elf.h>
#include <string.h>

namespace hloom {
namespace {

constexpr RelocationKind kUnknown{255, false, false};

RelocationKind kind_x86(uint32_t type) {
  switch (type) {
    case R_X86_64_NONE:
      return {0, false, false};
    case R_X86_64_64:
    case R_X86_64_PC64:
      return {8, false, false};
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
      return {4, false, false};
    case R_X86_64_32:
    case R_X86_64_32S:
      return {4, false, true};
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
      return {4, true, false};
    default:
      return kUnknown;
  }
}

RelocationKind kind_arm(uint32_t type) {
  switch (type) {
    case R_AARCH64_NONE:
      return {0, false, false};
    case R_AARCH64_ABS64:
    case R_AARCH64_PREL64:
      return {8, false, false};
    case R_AARCH64_ABS32:
      return {4, false, true};
    case R_AARCH64_ADR_GOT_PAGE:
    case R_AARCH64_LD64_GOT_LO12_NC:
      return {4, true, false};
    case R_AARCH64_PREL32:
    case R_AARCH64_MOVW_UABS_G0:
    case R_AARCH64_MOVW_UABS_G0_NC:
    case R_AARCH64_MOVW_UABS_G1:
    case R_AARCH64_MOVW_UABS_G1_NC:
    case R_AARCH64_MOVW_UABS_G2:
    case R_AARCH64_MOVW_UABS_G2_NC:
    case R_AARCH64_MOVW_UABS_G3:
    case R_AARCH64_LD_PREL_LO19:
    case R_AARCH64_ADR_PREL_LO21:
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADR_PREL_PG_HI21_NC:
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
    case R_AARCH64_LDST16_ABS_LO12_NC:
    case R_AARCH64_LDST32_ABS_LO12_NC:
    case R_AARCH64_LDST64_ABS_LO12_NC:
    case R_AARCH64_LDST128_ABS_LO12_NC:
    case R_AARCH64_TSTBR14:
    case R_AARCH64_CONDBR19:
    case R_AARCH64_JUMP26:
    case R_AARCH64_CALL26:
      return {4, false, false};
    default:
      return kUnknown;
  }
}

template <typename T>
void write(uint8_t* at, uint64_t value) {
  T word = static_cast<T>(value);
  memcpy(at, &word, sizeof(word));
}

bool fits_signed(uint64_t value, int bits) {
  int64_t shifted = static_cast<int64_t>(value) >> (bits - 1);
  return shifted == 0 || shifted == -1;
}

// Replaces `bits` bits of the instruction from bit `low` on.
void set_field(uint8_t* at, int low, int bits, uint64_t value) {
  uint32_t word;
  memcpy(&word, at, 4);
  uint32_t mask = ((uint32_t{1} << bits) - 1) << low;
  word = (word & ~mask) | ((static_cast<uint32_t>(value) << low) & mask);
  memcpy(at, &word, 4);
}

// A field that counts units of 1 << shift bytes, `bits` bits wide, signed.
Patched set_distance(uint8_t* at, uint64_t distance, int shift, int low, int bits) {
  if ((distance & ((uint64_t{1} << shift) - 1)) != 0) return Patched::kMisaligned;
  if (!fits_signed(distance, bits + shift)) return Patched::kTooFar;
  set_field(at, low, bits, distance >> shift);
  return Patched::kDone;
}

// adr and adrp: 21 bits, the two lowest apart from the others.
Patched set_adr(uint8_t* at, uint64_t value, bool check) {
  if (check && !fits_signed(value, 21)) return Patched::kTooFar;
  set_field(at, 29, 2, value);
  set_field(at, 5, 19, value >> 2);
  return Patched::kDone;
}

// The low 12 bits of an address in units of the access.
Patched set_low12(uint8_t* at, uint64_t address, int shift) {
  if ((address & ((uint64_t{1} << shift) - 1)) != 0) return Patched::kMisaligned;
  set_field(at, 10, 12, (address & 0xfff) >> shift);
  return Patched::kDone;
}

// 16 bits of an address, for movz and movk.
Patched set_part(uint8_t* at, uint64_t address, int part, bool check) {
  if (check && part < 3 && address >> (16 * part + 16) != 0) return Patched::kTooFar;
  set_field(at, 5, 16, address >> (16 * part) & 0xffff);
  return Patched::kDone;
}

Patched relocate_x86(const Patch& p) {
  uint64_t value = p.symbol + static_cast<uint64_t>(p.addend);
  uint64_t distance = value - p.place;
  switch (p.type) {
    case R_X86_64_64:
      write<uint64_t>(p.at, value);
      return Patched::kDone;
    case R_X86_64_PC64:
      write<uint64_t>(p.at, distance);
      return Patched::kDone;
    case R_X86_64_32:
      if (value >> 32 != 0) return Patched::kTooFar;
      write<uint32_t>(p.at, value);
      return Patched::kDone;
    case R_X86_64_32S:
      if (!fits_signed(value, 32)) return Patched::kTooFar;
      write<uint32_t>(p.at, value);
      return Patched::kDone;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
      if (!fits_signed(distance, 32)) return Patched::kTooFar;
      write<uint32_t>(p.at, distance);
      return Patched::kDone;
    default:
      return Patched::kUnknown;
  }
}

Patched relocate_arm(const Patch& p) {
  uint64_t value = p.symbol + static_cast<uint64_t>(p.addend);
  uint64_t distance = value - p.place;
  // Pages are 4 KiB here, whatever the system's are. Signed: a page before this one is near.
  uint64_t pages = static_cast<uint64_t>(
      static_cast<int64_t>((value & ~uint64_t{0xfff}) - (p.place & ~uint64_t{0xfff})) >> 12);
  switch (p.type) {
    case R_AARCH64_ABS64:
      write<uint64_t>(p.at, value);
      return Patched::kDone;
    case R_AARCH64_PREL64:
      write<uint64_t>(p.at, distance);
      return Patched::kDone;
    case R_AARCH64_ABS32:
      if (value >> 32 != 0 && !fits_signed(value, 32)) return Patched::kTooFar;
      write<uint32_t>(p.at, value);
      return Patched::kDone;
    case R_AARCH64_PREL32:
      if (!fits_signed(distance, 32)) return Patched::kTooFar;
      write<uint32_t>(p.at, distance);
      return Patched::kDone;
    case R_AARCH64_MOVW_UABS_G0:
      return set_part(p.at, value, 0, true);
    case R_AARCH64_MOVW_UABS_G0_NC:
      return set_part(p.at, value, 0, false);
    case R_AARCH64_MOVW_UABS_G1:
      return set_part(p.at, value, 1, true);
    case R_AARCH64_MOVW_UABS_G1_NC:
      return set_part(p.at, value, 1, false);
    case R_AARCH64_MOVW_UABS_G2:
      return set_part(p.at, value, 2, true);
    case R_AARCH64_MOVW_UABS_G2_NC:
      return set_part(p.at, value, 2, false);
    case R_AARCH64_MOVW_UABS_G3:
      return set_part(p.at, value, 3, false);
    case R_AARCH64_LD_PREL_LO19:
    case R_AARCH64_CONDBR19:
      return set_distance(p.at, distance, 2, 5, 19);
    case R_AARCH64_TSTBR14:
      return set_distance(p.at, distance, 2, 5, 14);
    case R_AARCH64_JUMP26:
    case R_AARCH64_CALL26:
      return set_distance(p.at, distance, 2, 0, 26);
    case R_AARCH64_ADR_PREL_LO21:
      return set_adr(p.at, distance, true);
    case R_AARCH64_ADR_GOT_PAGE:
    case R_AARCH64_ADR_PREL_PG_HI21:
      return set_adr(p.at, pages, true);
    case R_AARCH64_ADR_PREL_PG_HI21_NC:
      return set_adr(p.at, pages, false);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
      return set_low12(p.at, value, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC:
      return set_low12(p.at, value, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC:
      return set_low12(p.at, value, 2);
    case R_AARCH64_LD64_GOT_LO12_NC:
    case R_AARCH64_LDST64_ABS_LO12_NC:
      return set_low12(p.at, value, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC:
      return set_low12(p.at, value, 4);
    default:
      return Patched::kUnknown;
  }
}

}  // namespace

RelocationKind relocation_kind(uint16_t machine, uint32_t type) {
  return machine == EM_AARCH64 ? kind_arm(type) : kind_x86(type);
}

Patched relocate(uint16_t machine, const Patch& patch) {
  return machine == EM_AARCH64 ? relocate_arm(patch) : relocate_x86(patch);
}

void write_stub(uint16_t machine, uint8_t* at, uint64_t target) {
  if (machine == EM_AARCH64) {
    write<uint32_t>(at, 0x58000050);      // ldr x16, [pc, 8]
    write<uint32_t>(at + 4, 0xd61f0200);  // br x16
    write<uint64_t>(at + 8, target);
  } else {
    const uint8_t jump[8] = {0xff, 0x25, 2, 0, 0, 0, 0x0f, 0x0b};  // jmp [rip + 2]; ud2
    memcpy(at, jump, 8);
    write<uint64_t>(at + 8, target);
  }
}

}  // namespace hloom
