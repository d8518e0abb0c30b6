/* Calls a library of hloom with the bytes of standard input, and writes what comes out.
 *
 * driver LIBRARY FUNCTION THREADS WORKSPACE INPUTS OUTPUTS {bytes of an input} {bytes of an output}
 *        {alignment of an input} {alignment of an output} {alias of an output: an input, or -1}
 *
 * Every array and workspace ends at a page that cannot be touched; what the call allocates is counted.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef int (*function)(const void *const *, void *const *, void *);

static __thread int is_calling;
static int allocations;
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *malloc(size_t size) { return allocations += is_calling, __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return allocations += is_calling, __libc_calloc(count, size); }
void *realloc(void *m, size_t size) { return allocations += is_calling, __libc_realloc(m, size); }

enum { MOST = 64, PAGE = 4096 };
static long inputs, outputs, workspace;
static long input_bytes[MOST], output_bytes[MOST], alias[MOST];
static long input_alignment[MOST], output_alignment[MOST];
static char *given[MOST];
static function call;

/* Memory whose last byte, up to its alignment, is the last before a protected page. */
static char *guarded(long size, long alignment) {
  long room = (size + alignment - 1) / alignment * alignment;
  long pages = (room + PAGE - 1) / PAGE + 1;
  char *base = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED || mprotect(base + (pages - 1) * PAGE, PAGE, PROT_NONE)) exit(10);
  memset(base, 0xff, (pages - 1) * PAGE);
  return base + (pages - 1) * PAGE - room;
}

typedef struct {
  char *out[MOST];
  int status;
} result;

static void *run(void *argument) {
  result *r = argument;
  const void *in[MOST];
  void *out[MOST];
  char *own[MOST];
  for (long k = 0; k < inputs; k++) {
    own[k] = guarded(input_bytes[k], input_alignment[k]);
    memcpy(own[k], given[k], input_bytes[k]);
    in[k] = own[k];
  }
  for (long k = 0; k < outputs; k++)
    out[k] = r->out[k] = alias[k] >= 0 ? own[alias[k]] : guarded(output_bytes[k], output_alignment[k]);
  char *work = guarded(workspace, 64);
  for (int again = 0; again < 2 && r->status == 0; again++) {
    for (long k = 0; k < inputs; k++) memcpy(own[k], given[k], input_bytes[k]);
    is_calling = 1;
    r->status = call(in, out, work);
    is_calling = 0;
  }
  for (long k = 0; k < inputs; k++) {
    int is_aliased = 0;
    for (long j = 0; j < outputs; j++) is_aliased |= alias[j] == k;
    if (!is_aliased && memcmp(own[k], given[k], input_bytes[k])) r->status = 98;
  }
  return 0;
}

int main(int count, char **words) {
  (void)count;
  void *library = dlopen(words[1], RTLD_NOW);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 11;
  *(void **)&call = dlsym(library, words[2]);
  if (!call) return fprintf(stderr, "%s\n", dlerror()), 12;
  long threads = atol(words[3]);
  workspace = atol(words[4]), inputs = atol(words[5]), outputs = atol(words[6]);
  char **next = words + 7;
  for (long k = 0; k < inputs; k++) input_bytes[k] = atol(*next++);
  for (long k = 0; k < outputs; k++) output_bytes[k] = atol(*next++);
  for (long k = 0; k < inputs; k++) input_alignment[k] = atol(*next++);
  for (long k = 0; k < outputs; k++) output_alignment[k] = atol(*next++);
  for (long k = 0; k < outputs; k++) alias[k] = atol(*next++);
  for (long k = 0; k < inputs; k++) {
    given[k] = guarded(input_bytes[k], 16);
    if (fread(given[k], 1, input_bytes[k], stdin) != (size_t)input_bytes[k]) return 13;
  }
  static result results[16];
  pthread_t ids[16];
  for (long t = 0; t < threads; t++) pthread_create(ids + t, 0, run, results + t);
  for (long t = 0; t < threads; t++) pthread_join(ids[t], 0);
  for (long t = 0; t < threads; t++) {
    if (results[t].status) return results[t].status;
    for (long k = 0; k < outputs; k++)
      if (memcmp(results[t].out[k], results[0].out[k], output_bytes[k])) return 14;
  }
  for (long k = 0; k < outputs; k++) fwrite(results[0].out[k], 1, output_bytes[k], stdout);
  if (allocations) return fprintf(stderr, "%d allocations\n", allocations), 15;
  return 0;
}
