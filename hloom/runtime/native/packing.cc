// Elements narrower than a byte, packed and taken apart.
#include "packing.h"

namespace hloom {

namespace {

// With the width known to the compiler, which then works on many elements at a time.
template <int kBits>
void pack(unsigned char* to, const unsigned char* from, int64_t count) {
  constexpr int kPerByte = 8 / kBits;
  constexpr unsigned kMask = (1U << kBits) - 1;
  int64_t whole = count / kPerByte;
  for (int64_t k = 0; k < whole; ++k) {
    unsigned byte = 0;
    for (int j = 0; j < kPerByte; ++j) byte |= (from[k * kPerByte + j] & kMask) << (j * kBits);
    to[k] = static_cast<unsigned char>(byte);
  }
  if (whole * kPerByte == count) return;
  unsigned last = 0;
  for (int64_t k = whole * kPerByte; k < count; ++k)
    last |= (from[k] & kMask) << ((k - whole * kPerByte) * kBits);
  to[whole] = static_cast<unsigned char>(last);
}

template <int kBits>
void unpack(unsigned char* to, const unsigned char* from, int64_t count) {
  constexpr int kPerByte = 8 / kBits;
  constexpr unsigned kMask = (1U << kBits) - 1;
  int64_t whole = count / kPerByte;
  for (int64_t k = 0; k < whole; ++k)
    for (int j = 0; j < kPerByte; ++j)
      to[k * kPerByte + j] = static_cast<unsigned char>((from[k] >> (j * kBits)) & kMask);
  for (int64_t k = whole * kPerByte; k < count; ++k)
    to[k] = static_cast<unsigned char>((from[whole] >> ((k - whole * kPerByte) * kBits)) & kMask);
}

}  // namespace

void pack_elements(char* to, const char* from, int64_t count, int bits) {
  auto* out = reinterpret_cast<unsigned char*>(to);
  const auto* in = reinterpret_cast<const unsigned char*>(from);
  if (bits == 4) pack<4>(out, in, count);
  else pack<2>(out, in, count);
}

void unpack_elements(char* to, const char* from, int64_t count, int bits) {
  auto* out = reinterpret_cast<unsigned char*>(to);
  const auto* in = reinterpret_cast<const unsigned char*>(from);
  if (bits == 4) unpack<4>(out, in, count);
  else unpack<2>(out, in, count);
}

}  // namespace hloom
