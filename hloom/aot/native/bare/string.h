// Memory, as compilers call it by themselves: for machines without a C library.
#pragma once
#include <stddef.h>

extern "C" {
void* memcpy(void* to, const void* from, size_t count);
void* memset(void* to, int value, size_t count);
}
