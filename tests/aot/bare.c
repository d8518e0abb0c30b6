/* Calls a library of hloom on Linux without a C library, so that little need be built to link it.
 *
 * Standard input: 64-bit numbers (bytes of the workspace; how many inputs, outputs; bytes of each;
 * alignment of each; for each output the input it is written over, or -1), the bytes of each input.
 * Standard output: the bytes of each output. Every array ends at a page that cannot be touched.
 */
#include <stdint.h>

int HLOOM_FUNCTION(const void *const *inputs, void *const *outputs, void *workspace);

enum { READ = 63, WRITE = 64, EXIT = 93, MMAP = 222, MPROTECT = 226, MOST = 64, PAGE = 4096 };

static long system_call(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__aarch64__)
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#elif defined(__riscv)
  register long a7 __asm__("a7") = number, a0 __asm__("a0") = a, a1 __asm__("a1") = b;
  register long a2 __asm__("a2") = c, a3 __asm__("a3") = d, a4 __asm__("a4") = e, a5 __asm__("a5") = f;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
  return a0;
#endif
}

void *memset(void *to, int value, unsigned long count) {
  volatile char *t = to;
  while (count--) *t++ = (char)value;
  return to;
}

void *memcpy(void *to, const void *from, unsigned long count) {
  for (unsigned long k = 0; k < count; k++) ((volatile char *)to)[k] = ((const char *)from)[k];
  return to;
}

static void leave(int status) {
  for (;;) system_call(EXIT, status, 0, 0, 0, 0, 0);
}

static void transfer(int number, int file, char *data, long size) {
  while (size) {
    long count = system_call(number, file, (long)data, size, 0, 0, 0);
    if (count <= 0) leave(10);
    data += count, size -= count;
  }
}

static char *guarded(long size, long alignment) {
  long room = (size + alignment - 1) / alignment * alignment;
  long pages = (room + PAGE - 1) / PAGE + 1;
  char *base = (char *)system_call(MMAP, 0, pages * PAGE, 3, 0x22, -1, 0);
  if ((long)base < 0 || system_call(MPROTECT, (long)base + (pages - 1) * PAGE, PAGE, 0, 0, 0, 0)) leave(11);
  return base + (pages - 1) * PAGE - room;
}

static long numbers[3 + 5 * MOST];
static const void *inputs[MOST];
static void *outputs[MOST];

void _start(void) {
  transfer(READ, 0, (char *)numbers, 3 * sizeof(long));
  long in = numbers[1], out = numbers[2], *size = numbers + 3, *alignment = size + in + out;
  long *alias = alignment + in + out;
  transfer(READ, 0, (char *)size, (2 * in + 3 * out) * (long)sizeof(long));
  for (long k = 0; k < in; k++) {
    char *data = guarded(size[k], alignment[k]);
    transfer(READ, 0, data, size[k]);
    inputs[k] = data;
  }
  for (long k = 0; k < out; k++)
    outputs[k] = alias[k] >= 0 ? (void *)inputs[alias[k]] : guarded(size[in + k], alignment[in + k]);
  int status = HLOOM_FUNCTION(inputs, outputs, guarded(numbers[0], 64));
  if (status) leave(100 + status);
  for (long k = 0; k < out; k++) transfer(WRITE, 1, outputs[k], size[in + k]);
  leave(0);
}
