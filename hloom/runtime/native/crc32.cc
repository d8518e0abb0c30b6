// CRC-32 (reflected, polynomial 0xEDB88320): eight bytes at a time by tables, or 64 by products without
// carries where the processor has them, at about the speed of memory: constants may be gigabytes.
// The method is Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ" (2009).
#include "crc32.h"

#include <string.h>

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

Tables made_tables() {
  Tables made{};
  for (uint32_t k = 0; k < 256; ++k) {
    uint32_t c = k;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
    made[0][k] = c;
  }
  for (int t = 1; t < 8; ++t)
    for (int k = 0; k < 256; ++k) made[t][k] = made[t - 1][k] >> 8 ^ made[0][made[t - 1][k] & 255];
  return made;
}

// `crc` is inverted, here and below.
uint32_t by_tables(uint32_t crc, const char* data, int64_t size) {
  static const Tables tables = made_tables();
  for (; size >= 8; data += 8, size -= 8) {
    uint64_t word = 0;
    memcpy(&word, data, 8);
    word ^= crc;
    crc = 0;
    for (int t = 0; t < 8; ++t) crc ^= tables[7 - t][word >> 8 * t & 255];
  }
  for (; size > 0; ++data, --size)
    crc = tables[0][(crc ^ static_cast<uint8_t>(*data)) & 255] ^ crc >> 8;
  return crc;
}

#if defined(__x86_64__)
#define HLOOM_CARRYLESS __attribute__((target("pclmul,sse4.1")))

HLOOM_CARRYLESS inline __m128i load(const char* data) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
}

// What 128 bits that stand `factors` before `next` add to it.
HLOOM_CARRYLESS inline __m128i folded(__m128i x, __m128i factors, __m128i next) {
  __m128i low = _mm_clmulepi64_si128(x, factors, 0x00);
  __m128i high = _mm_clmulepi64_si128(x, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// `size` is a multiple of 16, and 64 at least. The factors are powers of x modulo the polynomial.
HLOOM_CARRYLESS uint32_t by_products(uint32_t crc, const char* data, int64_t size) {
  const __m128i by_512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
  const __m128i by_128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  const __m128i by_64 = _mm_set_epi64x(0, 0x0163cd6124);
  const __m128i polynomial = _mm_set_epi64x(0x01f7011641, 0x01db710641);
  const __m128i low_words = _mm_setr_epi32(~0, 0, ~0, 0);
  __m128i x[4];
  for (int k = 0; k < 4; ++k) x[k] = load(data + 16 * k);
  x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128(static_cast<int>(crc)));
  for (data += 64, size -= 64; size >= 64; data += 64, size -= 64)
    for (int k = 0; k < 4; ++k) x[k] = folded(x[k], by_512, load(data + 16 * k));
  __m128i all = x[0];
  for (int k = 1; k < 4; ++k) all = folded(all, by_128, x[k]);
  for (; size >= 16; data += 16, size -= 16) all = folded(all, by_128, load(data));
  __m128i half = _mm_clmulepi64_si128(all, by_128, 0x10);
  all = _mm_xor_si128(_mm_srli_si128(all, 8), half);
  half = _mm_srli_si128(all, 4);
  all = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(all, low_words), by_64, 0x00), half);
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(all, low_words), polynomial, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_words), polynomial, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(all, quotient), 1));
}
#endif

}  // namespace

HL_API uint32_t hl_crc32(uint32_t crc, const void* data, int64_t size) {
  const char* at = static_cast<const char*>(data);
  crc = ~crc;
#if defined(__x86_64__)
  static const bool has_products =
      __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  if (has_products && size >= 64) {
    int64_t most = size & ~int64_t{15};
    crc = by_products(crc, at, most);
    at += most;
    size -= most;
  }
#endif
  return ~by_tables(crc, at, size);
}
