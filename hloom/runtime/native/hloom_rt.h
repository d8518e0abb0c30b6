/* libhloom_rt: runs saved programs of hloom (`hloom compile model.hlo -o model.hloom`) in C programs.
 *
 *   hloom_rt_program *model = hloom_rt_load("model.hloom", 1, error, sizeof error);
 *   status = hloom_rt_run(model, inputs, outputs, temp, error, sizeof error);
 *
 * Inputs, outputs and temporary memory are the caller's; a file is mapped, and its constants stay in
 * it. Every function may be called from any thread; calls of one program run at the same time if
 * each has outputs and temporary memory of its own. A status is 0, or the number of an
 * absl::StatusCode, whose words are put in `error` (which may be null).
 *
 * What programs call beside their own code is linked where it is asked for, before the first load:
 * hloom_rt_use_sort() and so on. A program that needs one that is missing is refused with its name.
 */
#ifndef HLOOM_RT_H
#define HLOOM_RT_H

#include <stddef.h>
#include <stdint.h>

#include "custom_call.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hloom_rt_program hloom_rt_program;
typedef struct hloom_rt_started hloom_rt_started;

/* Memory of the caller: a pointer, and how many bytes are there. */
typedef struct {
  void* data;
  size_t size_bytes;
} hloom_rt_array;

/* What an input or output is. */
typedef struct {
  const char* name; /* of the parameter, or of what is returned, with .K behind in a tuple */
  const char* text; /* as HLO has it: f32[2,3]{1,0} */
  size_t size_bytes;
  size_t alignment;
  int32_t in_place; /* the output, or input, whose memory may be the same; -1: none */
} hloom_rt_shape;

/* A saved program, for `threads` threads (1: only those that call). Null: `error` says why. */
hloom_rt_program* hloom_rt_load(const char* path, int32_t threads, char* error, size_t error_size);
/* The same of bytes in memory, which stay the caller's and must outlive the program; at a multiple of
 * 4096 nothing is copied. */
hloom_rt_program* hloom_rt_load_bytes(const void* data, size_t size_bytes, int32_t threads,
                                      char* error, size_t error_size);
/* Nothing of it may be running. */
void hloom_rt_free(hloom_rt_program* program);

const char* hloom_rt_name(const hloom_rt_program* program);
size_t hloom_rt_input_count(const hloom_rt_program* program);
size_t hloom_rt_output_count(const hloom_rt_program* program);
hloom_rt_shape hloom_rt_input(const hloom_rt_program* program, size_t number);
hloom_rt_shape hloom_rt_output(const hloom_rt_program* program, size_t number);
/* The number of the input or output of a name; -1: there is none. */
int64_t hloom_rt_input_number(const hloom_rt_program* program, const char* name);
int64_t hloom_rt_output_number(const hloom_rt_program* program, const char* name);
/* Memory that a run works in, at a multiple of 64; it keeps nothing between runs. */
size_t hloom_rt_temp_bytes(const hloom_rt_program* program);

/* Runs it. Inputs are never written, but where an output is given the memory of one (`in_place`). */
int32_t hloom_rt_run(hloom_rt_program* program, const hloom_rt_array* inputs,
                     const hloom_rt_array* outputs, hloom_rt_array temp, char* error,
                     size_t error_size);
/* Begins a run on a thread of its own; all memory stays until it has been awaited. Null: `error`. */
hloom_rt_started* hloom_rt_start(hloom_rt_program* program, const hloom_rt_array* inputs,
                                 const hloom_rt_array* outputs, hloom_rt_array temp, char* error,
                                 size_t error_size);
int32_t hloom_rt_is_done(const hloom_rt_started* run);
/* Asks it to end soon; it must be awaited still. */
void hloom_rt_cancel(hloom_rt_started* run);
/* Waits for the end, frees the run, returns its status. */
int32_t hloom_rt_wait(hloom_rt_started* run, char* error, size_t error_size);

/* What handles the custom calls to a target, from the next load on (custom_call.h). */
int32_t hloom_rt_register(const char* target, hl_handler handler, void* user);

/* Kinds of routines. */
void hloom_rt_use_sort(void);    /* sort, topk */
void hloom_rt_use_fft(void);     /* fft */
void hloom_rt_use_linalg(void);  /* cholesky, triangular-solve, JAX's calls of LAPACK */
void hloom_rt_use_dynamic(void); /* arrays whose size is known when a program runs */
void hloom_rt_use_threads(void); /* parts of a program side by side, as threads > 1 has them */

#ifdef __cplusplus
}
#endif
#endif
