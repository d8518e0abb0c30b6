/* The weights of a library, in a file that is mapped: for libraries of hloom.aot.
 *
 * HLOOM_BYTES of the file, of which the constants begin at HLOOM_BEGIN; HLOOM_SUM is what file_sum() gives.
 */
#include <stdint.h>

#define JOINED(a, b) a##b
#define WITH_PREFIX(a, b) JOINED(a, b)
#define NAMED(name) WITH_PREFIX(HLOOM_PREFIX, name)

#if defined(_WIN32)
#define PUBLIC __declspec(dllexport)
#elif defined(__wasm__)
#define EXPORTED(name) __attribute__((export_name(#name)))
#define EXPORTED_AS(name) EXPORTED(name)
#define PUBLIC
#else
#define PUBLIC __attribute__((visibility("default")))
#endif

enum { UNALIGNED = 3, UNREADABLE = 6, OTHER = 7, ALIGNMENT = 64 };

/* Where the constants are, or null; functions of the library read it. */
const char *NAMED(weights_at) __attribute__((visibility("hidden")));

/* A sum of all words, each times an odd number of its own: whatever single word is changed, it is
 * another one (hloom/aot/weights.py has the same). The last word is filled with zeros. */
static uint64_t factor(uint64_t at) {
  uint64_t x = (at + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x | 1;
}

static uint64_t file_sum(const unsigned char *data, uint64_t size) {
  uint64_t sum = 0, last = 0;
  const uint64_t *words = (const uint64_t *)data;
  for (uint64_t k = 0; k < size / 8; k++) sum += words[k] * factor(k);
  for (uint64_t k = size / 8 * 8; k < size; k++) last |= (uint64_t)data[k] << k % 8 * 8;
  return size % 8 ? sum + last * factor(size / 8) : sum;
}

#if defined(__wasm__)
EXPORTED_AS(HLOOM_SET)
#endif
PUBLIC int NAMED(set_weights)(const void *file, uint64_t size) {
  if (!file || (uintptr_t)file % ALIGNMENT) return UNALIGNED;
  if (size != HLOOM_BYTES || file_sum(file, size) != HLOOM_SUM) return OTHER;
  __atomic_store_n(&NAMED(weights_at), (const char *)file + HLOOM_BEGIN, __ATOMIC_RELEASE);
  return 0;
}

#if defined(HLOOM_MAPS)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void *mapped;

PUBLIC void NAMED(unload_weights)(void) {
  __atomic_store_n(&NAMED(weights_at), (const char *)0, __ATOMIC_RELEASE);
  if (mapped) munmap(mapped, HLOOM_BYTES);
  mapped = 0;
}

PUBLIC int NAMED(load_weights)(const char *path) {
  struct stat about;
  if (!path) return UNALIGNED;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return UNREADABLE;
  if (fstat(file, &about) || !S_ISREG(about.st_mode)) return close(file), UNREADABLE;
  if ((uint64_t)about.st_size != HLOOM_BYTES) return close(file), OTHER;
  void *data = mmap(0, HLOOM_BYTES, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (data == MAP_FAILED) return UNREADABLE;
  int status = NAMED(set_weights)(data, HLOOM_BYTES);
  if (status) return munmap(data, HLOOM_BYTES), status;
  if (mapped) munmap(mapped, HLOOM_BYTES);
  mapped = data;
  return 0;
}
#endif
