// Memory, as compilers call it by themselves, and names: for machines without a C library.
#pragma once
#include <stddef.h>

extern "C" {
void* memcpy(void* to, const void* from, size_t count);
void* memmove(void* to, const void* from, size_t count);
void* memset(void* to, int value, size_t count);
}

#define strlen bare_strlen
#define strcmp bare_strcmp
#define memcmp bare_memcmp
#define strncpy bare_strncpy

static inline size_t bare_strlen(const char* text) {
  size_t size = 0;
  while (text[size]) size++;
  return size;
}

static inline int bare_strcmp(const char* a, const char* b) {
  while (*a && *a == *b) a++, b++;
  return (int)(unsigned char)*a - (int)(unsigned char)*b;
}

static inline int bare_memcmp(const void* one, const void* other, size_t count) {
  const unsigned char *a = (const unsigned char*)one, *b = (const unsigned char*)other;
  for (size_t k = 0; k < count; k++)
    if (a[k] != b[k]) return (int)a[k] - (int)b[k];
  return 0;
}

static inline char* bare_strncpy(char* to, const char* from, size_t most) {
  size_t k = 0;
  for (; k < most && from[k]; k++) to[k] = from[k];
  for (; k < most; k++) to[k] = 0;
  return to;
}
