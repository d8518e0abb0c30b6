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
typedef struct hloom_rt_pool hloom_rt_pool;
typedef struct hloom_rt_devices hloom_rt_devices;

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

/* What a caller says of one run; all zeros: what hloom_rt_run does. */
typedef struct {
  int64_t type_id;
  void* data;
} hloom_rt_user_data;
typedef struct {
  hloom_rt_pool* pool;                 /* whose threads work on it; null: the program's own */
  const hloom_rt_user_data* user_data; /* what handlers of custom calls find by a type's number */
  size_t user_data_count;
  hloom_rt_devices* devices; /* with which others it runs; null: alone */
  int64_t device;            /* the global number of the device that it runs on, of `devices` */
  int64_t local_device;      /* what handlers are told: its number in this process */
  int64_t launch_id;         /* devices meet those of the same launch */
} hloom_rt_options;

/* Runs with options; user data is copied, the rest stays until the run has ended. A program for
 * several devices is run once for each, at the same time, by threads of the caller's or
 * hloom_rt_start_with: collectives join them. The n-th runs of all devices with a launch number
 * belong together. */
int32_t hloom_rt_run_with(hloom_rt_program* program, const hloom_rt_options* options,
                          const hloom_rt_array* inputs, const hloom_rt_array* outputs,
                          hloom_rt_array temp, char* error, size_t error_size);
hloom_rt_started* hloom_rt_start_with(hloom_rt_program* program, const hloom_rt_options* options,
                                      const hloom_rt_array* inputs, const hloom_rt_array* outputs,
                                      hloom_rt_array temp, char* error, size_t error_size);

/* So many threads, the caller's counted, for any number of programs. Null: no memory. */
hloom_rt_pool* hloom_rt_pool_new(int32_t threads);
void hloom_rt_pool_free(hloom_rt_pool* pool);

/* How many devices a program is for. */
int64_t hloom_rt_replica_count(const hloom_rt_program* program);
int64_t hloom_rt_partition_count(const hloom_rt_program* program);
/* The devices that run a program: assignment[r * partitions + p] is the global number of the one that
 * is replica r and partition p; null: 0, 1, ... All of them are threads of this process. They give up waiting for one another after
 * `patience_s` seconds in which nobody computes (0: 40). Null: `error`. */
hloom_rt_devices* hloom_rt_devices_new(const hloom_rt_program* program, const int64_t* assignment,
                                       double patience_s, char* error, size_t error_size);
/* Nothing of them may be running. */
void hloom_rt_devices_free(hloom_rt_devices* devices);

/* In a handler: what the options of its run have under a type's number; null: nothing. */
void* hloom_rt_user_data_of(hl_context* context, int64_t type_id);

/* What handles the custom calls to a target, from the next load on (custom_call.h). */
int32_t hloom_rt_register(const char* target, hl_handler handler, void* user);

/* Kinds of routines. */
void hloom_rt_use_sort(void);    /* sort, topk */
void hloom_rt_use_fft(void);     /* fft */
void hloom_rt_use_linalg(void);  /* cholesky, triangular-solve, JAX's calls of LAPACK */
void hloom_rt_use_dynamic(void); /* arrays whose size is known when a program runs */
void hloom_rt_use_devices(void); /* collectives, partition-id, replica-id, sends and receives */
void hloom_rt_use_threads(void); /* parts of a program side by side, as threads > 1 has them */

#ifdef __cplusplus
}
#endif
#endif
