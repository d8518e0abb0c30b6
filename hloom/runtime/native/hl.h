// The C ABI of the hloom runtime: what compiled programs and library routines may call.
//
// Every exported function is `HL_API`, starts with hl_, throws nothing and never aborts: what goes
// wrong is told to the context (hl_set_error), and the routine returns its status.
#ifndef HLOOM_RUNTIME_HL_H
#define HLOOM_RUNTIME_HL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define HL_API extern "C" __attribute__((visibility("default")))
extern "C" {
#else
#define HL_API __attribute__((visibility("default")))
#endif

typedef struct hl_pool hl_pool;
typedef struct hl_arena hl_arena;
typedef struct hl_rng hl_rng;
typedef struct hl_queue hl_queue;
typedef struct hl_context hl_context;

// Statuses; the numbers are those of absl::StatusCode, so that a PJRT plugin passes them on.
enum {
  HL_OK = 0,
  HL_CANCELLED = 1,
  HL_UNKNOWN = 2,
  HL_INVALID_ARGUMENT = 3,
  HL_DEADLINE_EXCEEDED = 4,
  HL_NOT_FOUND = 5,
  HL_RESOURCE_EXHAUSTED = 8,
  HL_FAILED_PRECONDITION = 9,
  HL_ABORTED = 10,
  HL_UNIMPLEMENTED = 12,
  HL_INTERNAL = 13,
};

// Steps begin..end of a region; also the ABI of a kernel (args: one pointer per parameter).
typedef void (*hl_range_function)(void* args, int64_t begin, int64_t end);
// The entry of a program. Returns a status.
typedef int32_t (*hl_main_function)(hl_context* context, void** buffers);
// A function of the host that a program may call. Returns a status.
typedef int32_t (*hl_host_function)(hl_context* context, int64_t id, void** buffers);

// What a compiled program may read without a call: the offsets are part of the ABI, on processors
// whose pointers have 32 bits, too.
#define HL_AT_8 __attribute__((aligned(8)))
struct hl_context {
  int32_t status;         // 0: the first error, HL_OK while there is none
  int32_t cancel;         // 4: not 0 once somebody asked the program to stop: test it in long loops
  int32_t threads;        // 8: how many may work on a region; 1 means that regions need not be cut
  int32_t device;         // 12: replica or partition number, for whoever runs several
  HL_AT_8 hl_pool* pool;  // 16: null if threads is 1
  HL_AT_8 hl_arena* arena;  // 24
  HL_AT_8 void* user;       // 32: whatever the host put there
  // What follows is private to the runtime.
};

// Runs fn over [0, n). Each call gets exactly one chunk [k*grain, min(n, (k+1)*grain)), whatever the
// number of threads, so a result kept by chunk (begin / grain) does not depend on it. Chunks run
// in any order, on several threads. Sleeping workers are woken when the first chunk was slow.
void hl_parallel_for(hl_context* context, hl_range_function fn, void* args, int64_t n,
                     int64_t grain);
// The same where the serial time of the whole region is known (an estimate will do): sleeping
// workers are woken at once if it is worth it, never if it is not.
void hl_parallel_for_ns(hl_context* context, hl_range_function fn, void* args, int64_t n,
                        int64_t grain, int64_t serial_ns);

// Memory aligned to 64 bytes (2 MiB from 2 MiB on), not cleared. Null, with the error set, if
// there is none. hl_free takes null.
void* hl_alloc(hl_context* context, int64_t size_bytes);
void hl_free(hl_context* context, void* memory);

// Records an error; the first one stays. `format` is that of printf. Returns `status`.
int32_t hl_set_error(hl_context* context, int32_t status, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif
#endif
