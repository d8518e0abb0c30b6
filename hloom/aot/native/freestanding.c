/* What compilers call by themselves, where no library of theirs is linked: memory, and 128 bits. */
#include <stddef.h>
#include <stdint.h>

#define OWN __attribute__((weak, visibility("hidden")))

typedef struct {
  uint64_t word;
} __attribute__((packed, may_alias)) eight;

OWN void *memcpy(void *to, const void *from, size_t count) {
  unsigned char *t = to;
  const unsigned char *f = from;
  size_t at = 0;
  for (; count - at >= 32; at += 32) {
    eight a = *(const eight *)(f + at), b = *(const eight *)(f + at + 8);
    eight c = *(const eight *)(f + at + 16), d = *(const eight *)(f + at + 24);
    *(eight *)(t + at) = a, *(eight *)(t + at + 8) = b;
    *(eight *)(t + at + 16) = c, *(eight *)(t + at + 24) = d;
  }
  for (; at < count; at++) t[at] = f[at];
  return to;
}

OWN void *memmove(void *to, const void *from, size_t count) {
  unsigned char *t = to;
  const unsigned char *f = from;
  if ((uintptr_t)to - (uintptr_t)from >= count) return memcpy(to, from, count);
  while (count--) t[count] = f[count];
  return to;
}

OWN void *memset(void *to, int value, size_t count) {
  unsigned char *t = to;
  while (count--) *t++ = (unsigned char)value;
  return to;
}

OWN int memcmp(const void *one, const void *other, size_t count) {
  const unsigned char *a = one, *b = other;
  for (; count; a++, b++, count--)
    if (*a != *b) return *a < *b ? -1 : 1;
  return 0;
}

#if defined(__wasm__)
typedef unsigned __int128 wide;

static wide joined(uint64_t low, uint64_t high) {
  union { uint64_t half[2]; wide whole; } x = {{low, high}};
  return x.whole;
}

typedef union {
  wide whole;
  uint64_t half[2];
} halves;

OWN wide __multi3(wide a, wide b) {
  halves x = {a}, y = {b};
  uint64_t mask = 0xffffffffu, p = x.half[0] & mask, q = x.half[0] >> 32;
  uint64_t r = y.half[0] & mask, s = y.half[0] >> 32, low = p * r;
  uint64_t middle = q * r + (low >> 32), other = p * s + (middle & mask);
  uint64_t high = q * s + (middle >> 32) + (other >> 32);
  return joined((low & mask) | other << 32, high + x.half[0] * y.half[1] + x.half[1] * y.half[0]);
}

OWN wide __ashlti3(wide a, int by) {
  halves x = {a};
  if (by == 0) return a;
  if (by >= 64) return joined(0, x.half[0] << (by - 64));
  return joined(x.half[0] << by, x.half[1] << by | x.half[0] >> (64 - by));
}

OWN wide __lshrti3(wide a, int by) {
  halves x = {a};
  if (by == 0) return a;
  if (by >= 64) return joined(x.half[1] >> (by - 64), 0);
  return joined(x.half[0] >> by | x.half[1] << (64 - by), x.half[1] >> by);
}

OWN wide __ashrti3(wide a, int by) {
  halves x = {a};
  int64_t high = (int64_t)x.half[1];
  if (by == 0) return a;
  if (by >= 64) return joined((uint64_t)(high >> (by - 64)), (uint64_t)(high >> 63));
  return joined(x.half[0] >> by | x.half[1] << (64 - by), (uint64_t)(high >> by));
}
#endif
