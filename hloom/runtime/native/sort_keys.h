// Numbers whose unsigned order is the order of a key: one transform per element type.
#pragma once
#include <stdint.h>

#include "hl.h"

namespace hloom {

enum DataType : int64_t {  // as in the protobuf enum and in XLA_FFI_DataType
  kPred = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kU8 = 6,
  kU16 = 7,
  kU32 = 8,
  kU64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kC64 = 15,
  kBF16 = 16,
  kC128 = 18,
  kF8E5M2 = 19,
  kF8E4M3FN = 20,
  kS4 = 21,
  kU4 = 22,
  kF8E4M3B11FNUZ = 23,
  kF8E5M2FNUZ = 24,
  kF8E4M3FNUZ = 25,
  kS2 = 26,
  kU2 = 27,
  kF8E4M3 = 28,
  kF8E3M4 = 29,
  kS1 = 30,
  kU1 = 31,
  kF4E2M1FN = 32,
  kF8E8M0FNU = 33,
  kF6E2M3FN = 35,
  kF6E3M2FN = 36,
};

// One key type in one order. `bytes` is 0 for a type that has no order.
struct KeyType {
  int bytes = 0;
  bool is_float = false, is_signed = false, descending = false, zeros = false, nans = false;
  uint64_t infinity = 0;    // bits of +inf of a float of 2 bytes or more
  uint8_t table[256] = {};  // of types of one byte: the key of every value

  KeyType(int64_t dtype, int64_t flags);
  // Keys of n values with a stride; whether different values were made equal is returned.
  bool keys(const void* in, int64_t stride, int64_t n, uint8_t* out) const;
  bool keys(const void* in, int64_t stride, int64_t n, uint16_t* out) const;
  bool keys(const void* in, int64_t stride, int64_t n, uint32_t* out) const;
  bool keys(const void* in, int64_t stride, int64_t n, uint64_t* out) const;
  // The other way, where no values were made equal.
  void values(const uint16_t* keys, int64_t n, void* out) const;
  void values(const uint32_t* keys, int64_t n, void* out) const;
  void values(const uint64_t* keys, int64_t n, void* out) const;
};

}  // namespace hloom
