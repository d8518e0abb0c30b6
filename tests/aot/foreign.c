/* Calls a library of another system for this processor: a .dll of Windows, a .dylib of macOS, x86-64.
 *
 * foreign FILE FUNCTION THREADS WORKSPACE INPUTS OUTPUTS {bytes of an input} {bytes of an output}
 *         {alignment of an input} {alignment of an output} {alias of an output: an input, or -1}
 *
 * What a loader does is done here: segments, addresses that move, what is imported (of a .dll nothing;
 * of a .dylib functions that the C library here has, too). Words and results are as driver.c has them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef int (*unix_function)(const void *const *, void *const *, void *);
typedef int __attribute__((ms_abi)) (*windows_function)(const void *const *, void *const *, void *);

enum { MOST = 64, PAGE = 4096 };
static unsigned char *file, *base;

static uint16_t u16(const unsigned char *at) { return (uint16_t)(at[0] | at[1] << 8); }
static uint32_t u32(const unsigned char *at) { return u16(at) | (uint32_t)u16(at + 2) << 16; }
static uint64_t u64(const unsigned char *at) { return u32(at) | (uint64_t)u32(at + 4) << 32; }

static void fail(const char *what, const char *name) {
  fprintf(stderr, "%s %s\n", what, name);
  exit(3);
}

static void map(uint64_t size) {
  base = mmap(0, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) fail("no memory for", "the library");
}

static void add(unsigned char *at, uint64_t distance) {
  uint64_t value = u64(at) + distance;
  memcpy(at, &value, 8);
}

/* -- Windows: System V has no say in it, "PE Format" has. */

static void *of_windows(const char *name) {
  const unsigned char *head = file + u32(file + 0x3c), *optional = head + 24;
  const unsigned char *section = optional + u16(head + 20), *directory = optional + 112;
  if (u32(head) != 0x4550 || u16(optional) != 0x20b) fail("no PE of 64 bits", "");
  if (u32(directory + 12)) fail("it imports", "something");
  map(u32(optional + 56));
  for (int k = u16(head + 6); k > 0; k--, section += 40) {
    uint32_t size = u32(section + 16), memory = u32(section + 8);
    memcpy(base + u32(section + 12), file + u32(section + 20), size < memory ? size : memory);
  }
  const unsigned char *block = base + u32(directory + 40), *end = block + u32(directory + 44);
  for (; block < end; block += u32(block + 4))
    for (uint32_t k = 8; k < u32(block + 4); k += 2)
      if (u16(block + k) >> 12 == 10)
        add(base + u32(block) + (u16(block + k) & 0xfff), (uint64_t)base - u64(optional + 24));
  const unsigned char *exports = base + u32(directory);
  for (uint32_t k = 0; k < u32(exports + 24); k++)
    if (!strcmp((char *)base + u32(base + u32(exports + 32) + 4 * k), name))
      return base + u32(base + u32(exports + 28) + 4 * u16(base + u32(exports + 36) + 2 * k));
  fail("no function", name);
  return NULL;
}

/* -- macOS: the names are those of mach-o/loader.h. */

enum { SEGMENT_64 = 0x19, SYMTAB = 2, DYSYMTAB = 0xb, DYLD_INFO_ONLY = (int)0x80000022 };
static uint64_t starts[16];

static uint64_t uleb(const unsigned char **at) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    unsigned char byte = *(*at)++;
    value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return value;
  }
}

static void rebase(const unsigned char *at, const unsigned char *end) {
  unsigned char *place = NULL;
  while (at < end) {
    int code = *at & 0xf0, number = *at++ & 15;
    uint64_t count = 0, skip = 0;
    if (code == 0x00) return;
    else if (code == 0x10) continue;
    else if (code == 0x20) place = base + starts[number] + uleb(&at);
    else if (code == 0x30) place += uleb(&at);
    else if (code == 0x40) place += 8 * number;
    else if (code == 0x50) count = (uint64_t)number;
    else if (code == 0x60) count = uleb(&at);
    else if (code == 0x70) count = 1, skip = uleb(&at);
    else if (code == 0x80) count = uleb(&at), skip = uleb(&at);
    else fail("an unknown way to", "rebase");
    for (; count > 0; count--, place += 8 + skip) add(place, (uint64_t)base);
  }
}

static void *of_macos(const char *name) {
  const unsigned char *segments[16], *symbols = NULL, *indirect = NULL, *moves = NULL;
  const unsigned char *command = file + 32;
  const char *strings = NULL;
  int count = 0;
  uint64_t size = 0, symbol_count = 0;
  for (uint32_t k = 0; k < u32(file + 16); k++, command += u32(command + 4)) {
    int kind = (int)u32(command);
    if (kind == SEGMENT_64) {
      starts[count] = u64(command + 24), segments[count++] = command;
      if (u64(command + 24) + u64(command + 32) > size) size = u64(command + 24) + u64(command + 32);
    }
    if (kind == SYMTAB) {
      symbols = file + u32(command + 8), symbol_count = u32(command + 12);
      strings = (char *)file + u32(command + 16);
    }
    if (kind == DYSYMTAB) indirect = file + u32(command + 56);
    if (kind == DYLD_INFO_ONLY) moves = command;
  }
  map(size);
  for (int k = 0; k < count; k++)
    memcpy(base + starts[k], file + u64(segments[k] + 40), u64(segments[k] + 48));
  if (moves) rebase(file + u32(moves + 8), file + u32(moves + 8) + u32(moves + 12));
  for (int k = 0; k < count; k++)
    for (uint32_t s = 0; s < u32(segments[k] + 64); s++) {
      const unsigned char *section = segments[k] + 72 + 80 * s;
      int kind = u32(section + 64) & 255;
      if (kind != 6 && kind != 7) continue; /* pointers to what is imported, at once or when called */
      for (uint64_t p = 0; p < u64(section + 40) / 8; p++) {
        uint32_t number = u32(indirect + 4 * (u32(section + 68) + p));
        if (number & 0xc0000000u) continue;
        const char *wanted = strings + u32(symbols + 16 * number);
        /* Nobody calls the first of these once all is bound, and the second only asks for versions. */
        int is_here = *wanted == '_' && strcmp(wanted, "__availability_version_check");
        void *found = is_here ? dlsym(RTLD_DEFAULT, wanted + 1) : base;
        if (!found) fail("it needs", wanted);
        memcpy(base + u64(section + 32) + 8 * p, &found, 8);
      }
    }
  for (uint64_t k = 0; k < symbol_count; k++)
    if ((symbols[16 * k + 4] & 15) == 15 && strings[u32(symbols + 16 * k)] == '_' &&
        !strcmp(strings + u32(symbols + 16 * k) + 1, name))
      return base + u64(symbols + 16 * k + 8);
  fail("no function", name);
  return NULL;
}

/* Memory whose last byte, up to its alignment, is the last before a protected page. */
static char *guarded(long size, long alignment) {
  long room = (size + alignment - 1) / alignment * alignment, pages = (room + PAGE - 1) / PAGE + 1;
  char *at = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED || mprotect(at + (pages - 1) * PAGE, PAGE, PROT_NONE)) exit(10);
  memset(at, 0xff, (pages - 1) * PAGE);
  return at + (pages - 1) * PAGE - room;
}

int main(int word_count, char **words) {
  FILE *from = word_count > 6 ? fopen(words[1], "rb") : NULL;
  if (!from || fseek(from, 0, SEEK_END)) return 2;
  long size = ftell(from);
  rewind(from);
  file = malloc(size);
  if (fread(file, 1, size, from) != (size_t)size) return 2;
  int is_windows = file[0] == 'M';
  void *call = is_windows ? of_windows(words[2]) : of_macos(words[2]);
  long workspace = atol(words[4]), inputs = atol(words[5]), outputs = atol(words[6]);
  char **bytes = words + 7, **alignments = bytes + inputs + outputs;
  char **alias = alignments + inputs + outputs;
  void *in[MOST], *out[MOST];
  for (long k = 0; k < inputs; k++) {
    in[k] = guarded(atol(bytes[k]), atol(alignments[k]));
    if (fread(in[k], 1, atol(bytes[k]), stdin) != (size_t)atol(bytes[k])) return 13;
  }
  for (long k = 0; k < outputs; k++)
    out[k] = atol(alias[k]) >= 0
                 ? in[atol(alias[k])]
                 : guarded(atol(bytes[inputs + k]), atol(alignments[inputs + k]));
  void *work = guarded(workspace, 64);
  const void *const *given = (const void *const *)in;
  int status = is_windows ? ((windows_function)call)(given, out, work)
                          : ((unix_function)call)(given, out, work);
  if (status) return status;
  for (long k = 0; k < outputs; k++) fwrite(out[k], 1, atol(bytes[inputs + k]), stdout);
  return 0;
}
