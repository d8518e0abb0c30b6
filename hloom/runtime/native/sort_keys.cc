#include "sort_keys.h"

#include <string.h>

#include "instruction_set.h"

namespace hloom {
namespace {

// -- values of one byte -------------------------------------------------------------------------

struct Byte {
  bool is_nan, is_zero;
  uint8_t rank;  // in the total order
};

Byte of_byte(int64_t dtype, int x) {
  switch (dtype) {
    case kS8:
      return {false, false, (uint8_t)(x ^ 0x80)};
    case kS4:
      return {false, false, (uint8_t)((x & 15) ^ 8)};
    case kS2:
      return {false, false, (uint8_t)((x & 3) ^ 2)};
    case kS1:
      return {false, false, (uint8_t)((x & 1) ^ 1)};
    case kU4:
      return {false, false, (uint8_t)(x & 15)};
    case kU2:
      return {false, false, (uint8_t)(x & 3)};
    case kU1:
      return {false, false, (uint8_t)(x & 1)};
    case kF8E8M0FNU:
      return {x == 0xff, false, (uint8_t)x};
    case kF4E2M1FN: {
      int y = x & 15;
      return {false, (y & 7) == 0, (uint8_t)(y & 8 ? ~y & 7 : y | 8)};
    }
    case kF6E2M3FN:
    case kF6E3M2FN: {
      int y = x & 63;
      return {false, (y & 31) == 0, (uint8_t)(y & 32 ? ~y & 31 : y | 32)};
    }
    case kF8E4M3B11FNUZ:
    case kF8E5M2FNUZ:
    case kF8E4M3FNUZ:  // the one NaN sits where -0 would be, and is above everything
      if (x == 0x80) return {true, false, 0xff};
      return {false, x == 0, (uint8_t)(x & 0x80 ? ~x & 0x7f : 0x7f + x)};
    case kF8E5M2:
    case kF8E4M3FN:
    case kF8E4M3:
    case kF8E3M4: {
      int most = dtype == kF8E5M2     ? 0x7c
                 : dtype == kF8E4M3FN ? 0x7e
                 : dtype == kF8E4M3   ? 0x78
                                      : 0x70;
      return {(x & 0x7f) > most, (x & 0x7f) == 0, (uint8_t)(x & 0x80 ? ~x & 0x7f : x | 0x80)};
    }
    default:
      return {false, false, (uint8_t)x};
  }
}

// -- wider values -------------------------------------------------------------------------------

// The order is found with sign and magnitude: negative numbers are complemented.
template <class U>
inline U float_key(U x) {
  constexpr U sign = (U)1 << (8 * sizeof(U) - 1);
  U negative = (U)0 - (x >> (8 * sizeof(U) - 1));
  return (U)(x ^ (U)(negative | sign));
}

template <class U>
inline U float_of_key(U k) {
  constexpr U sign = (U)1 << (8 * sizeof(U) - 1);
  U positive = (U)0 - (k >> (8 * sizeof(U) - 1));
  return (U)(k ^ (U)(~positive | sign));
}

template <class U>
inline __attribute__((always_inline)) bool float_keys(const U* in, int64_t stride, int64_t n,
                                                      U* out, U infinity, bool zeros, bool nans,
                                                      U flip) {
  constexpr U sign = (U)1 << (8 * sizeof(U) - 1);
  U special = 0;
  for (int64_t i = 0; i < n; i++) {
    U x = in[i * stride];
    U magnitude = x & (U)~sign;
    bool zero = zeros & (x == sign), nan = nans & (magnitude > infinity);
    special |= (U)(zero | nan);
    U key = float_key<U>(zero ? (U)0 : x);
    out[i] = (U)((nan ? (U) ~(U)0 : key) ^ flip);
  }
  return special != 0;
}

template <class U>
inline __attribute__((always_inline)) void plain_keys(const U* in, int64_t stride, int64_t n,
                                                      U* out, U flip) {
  for (int64_t i = 0; i < n; i++) out[i] = (U)(in[i * stride] ^ flip);
}

#define HLOOM_KEYS(U, NAME)                                                               \
  HLOOM_CLONES bool NAME##_floats(const U* in, int64_t n, U* out, U infinity, bool zeros, \
                                  bool nans, U flip) {                                    \
    return float_keys<U>(in, 1, n, out, infinity, zeros, nans, flip);                     \
  }                                                                                       \
  HLOOM_CLONES void NAME##_plain(const U* in, int64_t n, U* out, U flip) {                \
    plain_keys<U>(in, 1, n, out, flip);                                                   \
  }                                                                                       \
  HLOOM_CLONES void NAME##_back(const U* in, int64_t n, U* out, U flip) {                 \
    for (int64_t i = 0; i < n; i++) out[i] = float_of_key<U>((U)(in[i] ^ flip));          \
  }

HLOOM_KEYS(uint16_t, two)
HLOOM_KEYS(uint32_t, four)
HLOOM_KEYS(uint64_t, eight)

inline bool floats(const uint16_t* i, int64_t n, uint16_t* o, uint16_t inf, bool z, bool a,
                   uint16_t f) {
  return two_floats(i, n, o, inf, z, a, f);
}
inline bool floats(const uint32_t* i, int64_t n, uint32_t* o, uint32_t inf, bool z, bool a,
                   uint32_t f) {
  return four_floats(i, n, o, inf, z, a, f);
}
inline bool floats(const uint64_t* i, int64_t n, uint64_t* o, uint64_t inf, bool z, bool a,
                   uint64_t f) {
  return eight_floats(i, n, o, inf, z, a, f);
}
inline void plain(const uint16_t* i, int64_t n, uint16_t* o, uint16_t f) { two_plain(i, n, o, f); }
inline void plain(const uint32_t* i, int64_t n, uint32_t* o, uint32_t f) { four_plain(i, n, o, f); }
inline void plain(const uint64_t* i, int64_t n, uint64_t* o, uint64_t f) {
  eight_plain(i, n, o, f);
}
inline void back(const uint16_t* i, int64_t n, uint16_t* o, uint16_t f) { two_back(i, n, o, f); }
inline void back(const uint32_t* i, int64_t n, uint32_t* o, uint32_t f) { four_back(i, n, o, f); }
inline void back(const uint64_t* i, int64_t n, uint64_t* o, uint64_t f) { eight_back(i, n, o, f); }

template <class U>
U flip_of(const KeyType& t) {
  U sign = t.is_signed && !t.is_float ? (U)1 << (8 * sizeof(U) - 1) : 0;
  return t.descending ? (U)~sign : sign;
}

template <class U>
bool wide_keys(const KeyType& t, const void* in, int64_t stride, int64_t n, U* out) {
  const U* x = (const U*)in;
  U flip = flip_of<U>(t), infinity = (U)t.infinity;
  if (stride == 1) {
    if (t.is_float) return floats(x, n, out, infinity, t.zeros, t.nans, flip);
    plain(x, n, out, flip);
    return false;
  }
  if (t.is_float) return float_keys<U>(x, stride, n, out, infinity, t.zeros, t.nans, flip);
  plain_keys<U>(x, stride, n, out, flip);
  return false;
}

template <class U>
void wide_values(const KeyType& t, const U* keys, int64_t n, void* out) {
  U flip = flip_of<U>(t);
  if (t.is_float) return back(keys, n, (U*)out, flip);
  plain(keys, n, (U*)out, flip);
}

}  // namespace

KeyType::KeyType(int64_t dtype, int64_t flags) {
  descending = flags & 1, zeros = flags & 2, nans = flags & 4;
  switch (dtype) {
    case kS16:
    case kS32:
    case kS64:
      is_signed = true;
      [[fallthrough]];
    case kU16:
    case kU32:
    case kU64:
      bytes = dtype == kS16 || dtype == kU16 ? 2 : dtype == kS32 || dtype == kU32 ? 4 : 8;
      return;
    case kF16:
      is_float = true, bytes = 2, infinity = 0x7c00;
      return;
    case kBF16:
      is_float = true, bytes = 2, infinity = 0x7f80;
      return;
    case kF32:
      is_float = true, bytes = 4, infinity = 0x7f800000u;
      return;
    case kF64:
      is_float = true, bytes = 8, infinity = 0x7ff0000000000000u;
      return;
    case kPred:
    case kS8:
    case kU8:
    case kS4:
    case kU4:
    case kS2:
    case kU2:
    case kS1:
    case kU1:
    case kF8E5M2:
    case kF8E4M3FN:
    case kF8E4M3B11FNUZ:
    case kF8E5M2FNUZ:
    case kF8E4M3FNUZ:
    case kF8E4M3:
    case kF8E3M4:
    case kF4E2M1FN:
    case kF8E8M0FNU:
    case kF6E2M3FN:
    case kF6E3M2FN:
      bytes = 1;
      break;
    default:
      return;
  }
  uint8_t zero = of_byte(dtype, 0).rank;
  for (int x = 0; x < 256; x++) {
    Byte b = of_byte(dtype, x);
    uint8_t key = zeros && b.is_zero ? zero : nans && b.is_nan ? (uint8_t)0xff : b.rank;
    table[x] = descending ? (uint8_t)~key : key;
  }
}

bool KeyType::keys(const void* in, int64_t stride, int64_t n, uint8_t* out) const {
  const uint8_t* x = (const uint8_t*)in;
  for (int64_t i = 0; i < n; i++) out[i] = table[x[i * stride]];
  return true;  // a table is not turned round
}
bool KeyType::keys(const void* in, int64_t stride, int64_t n, uint16_t* out) const {
  return wide_keys(*this, in, stride, n, out);
}
bool KeyType::keys(const void* in, int64_t stride, int64_t n, uint32_t* out) const {
  return wide_keys(*this, in, stride, n, out);
}
bool KeyType::keys(const void* in, int64_t stride, int64_t n, uint64_t* out) const {
  return wide_keys(*this, in, stride, n, out);
}
void KeyType::values(const uint16_t* k, int64_t n, void* out) const {
  wide_values(*this, k, n, out);
}
void KeyType::values(const uint32_t* k, int64_t n, void* out) const {
  wide_values(*this, k, n, out);
}
void KeyType::values(const uint64_t* k, int64_t n, void* out) const {
  wide_values(*this, k, n, out);
}

}  // namespace hloom
