// CRC-32 (reflected, polynomial 0xEDB88320), at about the speed of memory: constants may be gigabytes.
// x86-64: 256 or 64 bytes at a time by products without carries; aarch64: by its instruction, three
// sums at once; without them eight bytes at a time by tables. The method of products is Gopal et al.,
// "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ" (2009).
#include "crc32.h"

#include <string.h>

#include <array>

#include "processor.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
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
#define HLOOM_WIDE __attribute__((target("pclmul,sse4.1,avx512f,vpclmulqdq")))

// Factors for what stands that many bits before: powers of x modulo the polynomial.
constexpr int64_t kBy512Low = 0x0154442bd4, kBy512High = 0x01c6e41596;
constexpr int64_t kBy128Low = 0x01751997d0, kBy128High = 0x00ccaa009e;

HLOOM_CARRYLESS inline __m128i load(const char* data) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
}

// What 128 bits that stand `factors` before `next` add to it.
HLOOM_CARRYLESS inline __m128i folded(__m128i x, __m128i factors, __m128i next) {
  __m128i low = _mm_clmulepi64_si128(x, factors, 0x00);
  __m128i high = _mm_clmulepi64_si128(x, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// The rest, `size` bytes, a multiple of 16, of which `all` is what came before.
HLOOM_CARRYLESS uint32_t reduced(__m128i all, const char* data, int64_t size) {
  const __m128i by_128 = _mm_set_epi64x(kBy128High, kBy128Low);
  const __m128i by_64 = _mm_set_epi64x(0, 0x0163cd6124);
  const __m128i polynomial = _mm_set_epi64x(0x01f7011641, 0x01db710641);
  const __m128i low_words = _mm_setr_epi32(~0, 0, ~0, 0);
  for (; size >= 16; data += 16, size -= 16) all = folded(all, by_128, load(data));
  __m128i half = _mm_clmulepi64_si128(all, by_128, 0x10);
  all = _mm_xor_si128(_mm_srli_si128(all, 8), half);
  half = _mm_srli_si128(all, 4);
  all = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(all, low_words), by_64, 0x00), half);
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(all, low_words), polynomial, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_words), polynomial, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(all, quotient), 1));
}

// `size` is a multiple of 16, and 64 at least.
HLOOM_CARRYLESS uint32_t by_products(uint32_t crc, const char* data, int64_t size) {
  const __m128i by_512 = _mm_set_epi64x(kBy512High, kBy512Low);
  const __m128i by_128 = _mm_set_epi64x(kBy128High, kBy128Low);
  __m128i x[4];
  for (int k = 0; k < 4; ++k) x[k] = load(data + 16 * k);
  x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128(static_cast<int>(crc)));
  for (data += 64, size -= 64; size >= 64; data += 64, size -= 64)
    for (int k = 0; k < 4; ++k) x[k] = folded(x[k], by_512, load(data + 16 * k));
  __m128i all = x[0];
  for (int k = 1; k < 4; ++k) all = folded(all, by_128, x[k]);
  return reduced(all, data, size);
}

// As `folded`, four at once.
HLOOM_WIDE inline __m512i folded(__m512i x, __m512i factors, __m512i next) {
  __m512i low = _mm512_clmulepi64_epi128(x, factors, 0x00);
  __m512i high = _mm512_clmulepi64_epi128(x, factors, 0x11);
  return _mm512_ternarylogic_epi64(low, high, next, 0x96);  // the exclusive or of all three
}

// `size` is a multiple of 16, and 256 at least.
HLOOM_WIDE uint32_t by_wide_products(uint32_t crc, const char* data, int64_t size) {
  const __m512i by_2048 = _mm512_broadcast_i32x4(_mm_set_epi64x(0x01322d1430, 0x011542778a));
  const __m512i by_512 = _mm512_broadcast_i32x4(_mm_set_epi64x(kBy512High, kBy512Low));
  const __m128i by_128 = _mm_set_epi64x(kBy128High, kBy128Low);
  __m512i x[4];
  for (int k = 0; k < 4; ++k) x[k] = _mm512_loadu_si512(data + 64 * k);
  __m128i before = _mm_cvtsi32_si128(static_cast<int>(crc));
  x[0] = _mm512_xor_si512(x[0], _mm512_zextsi128_si512(before));
  for (data += 256, size -= 256; size >= 256; data += 256, size -= 256)
    for (int k = 0; k < 4; ++k) x[k] = folded(x[k], by_2048, _mm512_loadu_si512(data + 64 * k));
  for (int k = 1; k < 4; ++k) x[k] = folded(x[k - 1], by_512, x[k]);
  for (; size >= 64; data += 64, size -= 64) x[3] = folded(x[3], by_512, _mm512_loadu_si512(data));
  __m128i all = _mm512_castsi512_si128(x[3]);
  all = folded(all, by_128, _mm512_extracti32x4_epi32(x[3], 1));
  all = folded(all, by_128, _mm512_extracti32x4_epi32(x[3], 2));
  all = folded(all, by_128, _mm512_extracti32x4_epi32(x[3], 3));
  return reduced(all, data, size);
}
#elif defined(__aarch64__)
#if defined(__clang__)
#define HLOOM_CRC __attribute__((target("crc")))
#else
#define HLOOM_CRC __attribute__((target("+crc")))
#endif

constexpr int64_t kStreamBytes = 16384;  // of each of the three

// a * b modulo the polynomial; the highest bit is that of x to the power of 0.
constexpr uint32_t product(uint32_t a, uint32_t b) {
  uint32_t sum = 0;
  for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if (a & bit) sum ^= b;
    b = b & 1 ? b >> 1 ^ 0xEDB88320u : b >> 1;
  }
  return sum;
}

// What a sum is multiplied with for this many bytes behind it.
constexpr uint32_t factor_of(int64_t bytes) {
  uint32_t factor = 1u << 31, power = 1u << 23;  // x to the powers of 0 and 8
  for (; bytes != 0; bytes >>= 1, power = product(power, power))
    if (bytes & 1) factor = product(factor, power);
  return factor;
}

HLOOM_CRC inline uint32_t of_word(uint32_t crc, const char* data) {
  uint64_t word;
  memcpy(&word, data, 8);
  return __crc32d(crc, word);
}

// `size` is a multiple of 8. An instruction waits for the one before, so three sums are taken at once.
HLOOM_CRC uint32_t by_instructions(uint32_t crc, const char* data, int64_t size) {
  constexpr uint32_t kBehind = factor_of(kStreamBytes);
  for (; size >= 3 * kStreamBytes; data += 3 * kStreamBytes, size -= 3 * kStreamBytes) {
    uint32_t second = 0, third = 0;
    for (const char *at = data, *end = data + kStreamBytes; at != end; at += 8) {
      crc = of_word(crc, at);
      second = of_word(second, at + kStreamBytes);
      third = of_word(third, at + 2 * kStreamBytes);
    }
    crc = product(product(crc, kBehind) ^ second, kBehind) ^ third;
  }
  for (; size >= 8; data += 8, size -= 8) crc = of_word(crc, data);
  return crc;
}
#endif

// As much from the beginning as the processor has instructions for; how many bytes that is.
int64_t by_hardware(uint32_t* crc, const char* data, int64_t size) {
#if defined(__x86_64__)
  static const bool has_products = hloom::missing_features("x86_64", "pclmul,sse4.1").empty();
  static const bool has_wide_products =
      has_products && hloom::missing_features("x86_64", "avx512f,vpclmulqdq").empty();
  if (!has_products || size < 64) return 0;
  size &= ~int64_t{15};
  *crc = has_wide_products && size >= 256 ? by_wide_products(*crc, data, size)
                                          : by_products(*crc, data, size);
  return size;
#elif defined(__aarch64__)
  static const bool has_instructions = getauxval(AT_HWCAP) & HWCAP_CRC32;
  if (!has_instructions) return 0;
  size &= ~int64_t{7};
  *crc = by_instructions(*crc, data, size);
  return size;
#else
  (void)crc, (void)data, (void)size;
  return 0;
#endif
}

}  // namespace

HL_API uint32_t hl_crc32(uint32_t crc, const void* data, int64_t size) {
  const char* at = static_cast<const char*>(data);
  crc = ~crc;
  int64_t done = size <= 0 ? 0 : by_hardware(&crc, at, size);
  return ~by_tables(crc, at + done, size - done);
}
