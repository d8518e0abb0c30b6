/* runtime KIND WAY PROGRAM.hloom: reads the inputs' bytes, runs the program, writes the outputs'. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hloom_rt.h"

enum { MOST = 64 };

static hloom_rt_program *model;
static hloom_rt_array in[MOST];

static void *memory(size_t size) { return aligned_alloc(64, (size + 127) / 64 * 64); }

/* Of an input or output; `is_odd`: no more aligned than is asked for. */
static hloom_rt_array array(hloom_rt_shape shape, int is_odd) {
  char *data = memory(shape.size_bytes + 64);
  return (hloom_rt_array){data + (is_odd ? shape.alignment : 0), shape.size_bytes};
}

static int32_t twice(hl_context *context, const hl_call_frame *frame) {
  if (frame->user == NULL) return hl_set_error(context, HL_INTERNAL, "the handler is not content");
  for (int64_t k = 0; k < frame->operands[0].dims[0]; k++)
    ((float *)frame->results[0].data)[k] = 2 * ((const float *)frame->operands[0].data)[k];
  ++*(int *)frame->user;
  return 0;
}

/* One run with outputs and temporary memory of its own. */
static void *runs(void *out_of) {
  char error[1000] = "";
  hloom_rt_array *out = out_of;
  hloom_rt_array temp = {memory(hloom_rt_temp_bytes(model)), hloom_rt_temp_bytes(model)};
  for (int k = 0; k < 20; k++)
    if (hloom_rt_run(model, in, out, temp, error, sizeof error))
      return fprintf(stderr, "%s\n", error), (void *)1;
  free(temp.data);
  return NULL;
}

static int wrong(const char *words, hloom_rt_array *out, hloom_rt_array temp) {
  char error[1000] = "";
  int32_t status = hloom_rt_run(model, in, out, temp, error, sizeof error);
  hloom_rt_started *run = hloom_rt_start(model, in, out, temp, NULL, 0);
  if (status == HL_INVALID_ARGUMENT && run == NULL && strstr(error, words)) return 0;
  return fprintf(stderr, "status %d for %s: %s\n", status, words, error), 1;
}

int main(int count, char **words) {
  char error[1000] = "";
  int calls = 0;
  if (count != 4) return 2;
  const char *kind = words[1], *way = words[2];
  int is_odd = strcmp(way, "odd") == 0;
#ifndef CORE
  if (strcmp(kind, "all") == 0) {
    hloom_rt_use_sort(), hloom_rt_use_fft(), hloom_rt_use_linalg();
    hloom_rt_use_dynamic(), hloom_rt_use_threads(), hloom_rt_use_sort();
  }
#endif
  if (strcmp(kind, "calls") == 0) hloom_rt_register("twice", twice, &calls);
  if (strcmp(kind, "fails") == 0) hloom_rt_register("twice", twice, NULL);
  model = hloom_rt_load(words[3], strcmp(way, "two") == 0 ? 2 : 1, error, sizeof error);
  if (model == NULL) return fprintf(stderr, "%s\n", error), 1;
  size_t inputs = hloom_rt_input_count(model), outputs = hloom_rt_output_count(model);
  hloom_rt_array out[8][MOST];
  for (size_t k = 0; k < inputs; k++) {
    in[k] = array(hloom_rt_input(model, k), is_odd);
    if (fread(in[k].data, 1, in[k].size_bytes, stdin) != in[k].size_bytes) return 3;
  }
  for (int t = 0; t < 8; t++)
    for (size_t k = 0; k < outputs; k++) out[t][k] = array(hloom_rt_output(model, k), is_odd);
  hloom_rt_array temp = {memory(hloom_rt_temp_bytes(model)), hloom_rt_temp_bytes(model)};
  int32_t status = 0;
  if (strcmp(way, "eight") == 0) {
    pthread_t threads[8];
    void *failed = NULL;
    for (int t = 0; t < 8; t++) pthread_create(&threads[t], NULL, runs, out[t]);
    for (int t = 0; t < 8 && !failed; t++) pthread_join(threads[t], &failed);
    if (failed) return 1;
    for (int t = 1; t < 8; t++)
      for (size_t k = 0; k < outputs; k++)
        if (memcmp(out[0][k].data, out[t][k].data, out[t][k].size_bytes)) return 4;
  } else if (strcmp(way, "async") == 0) {
    hloom_rt_started *run = hloom_rt_start(model, in, out[0], temp, error, sizeof error);
    if (run == NULL) return fprintf(stderr, "%s\n", error), 1;
    status = hloom_rt_wait(run, error, sizeof error);
  } else if (strcmp(way, "cancel") == 0) {
    hloom_rt_started *run = hloom_rt_start(model, in, out[0], temp, error, sizeof error);
    hloom_rt_cancel(run);
    status = hloom_rt_wait(run, error, sizeof error);
    if (status != 0 && status != HL_CANCELLED) return 5;
    status = hloom_rt_run(model, in, out[0], temp, error, sizeof error); /* as if nothing had been */
  } else if (strcmp(way, "wrong") == 0) {
    hloom_rt_array *o = out[0], odd = temp;
    o[0].size_bytes -= 1;
    if (wrong("output 0 is", o, temp)) return 6;
    o[0].size_bytes += 1, o[0].data = (char *)o[0].data + 2;
    if (wrong("at a multiple of 4", o, temp)) return 6;
    o[0].data = NULL;
    if (wrong("output 0 is", o, temp)) return 6;
    o[0].data = memory(o[0].size_bytes);
    if (temp.size_bytes == 0) return 7;
    odd.size_bytes -= 1;
    if (wrong("temporary memory is", o, odd)) return 6;
    odd = temp, odd.data = (char *)odd.data + 32;
    if (wrong("temporary memory is", o, odd)) return 6;
  } else if (strcmp(way, "place") == 0) {
    for (size_t k = 0; k < outputs; k++)
      if (hloom_rt_output(model, k).in_place >= 0)
        out[0][k].data = in[hloom_rt_output(model, k).in_place].data;
    status = hloom_rt_run(model, in, out[0], temp, error, sizeof error);
  } else if (strcmp(way, "names") == 0) {
    for (size_t k = 0; k < inputs; k++) {
      if (hloom_rt_input_number(model, hloom_rt_input(model, k).name) != (int64_t)k) return 9;
      printf("%s ", hloom_rt_input(model, k).name);
    }
    printf("->");
    for (size_t k = 0; k < outputs; k++) {
      if (hloom_rt_output_number(model, hloom_rt_output(model, k).name) != (int64_t)k) return 9;
      printf(" %s", hloom_rt_output(model, k).name);
    }
    if (hloom_rt_input_number(model, "nope") != -1 || hloom_rt_output_number(model, "") != -1) return 9;
    return 0;
  } else {
    status = hloom_rt_run(model, in, out[0], temp, error, sizeof error);
  }
  if (status) return fprintf(stderr, "%s\n", error), 1;
  if (strcmp(kind, "calls") == 0 && calls != 1) return 8;
  for (size_t k = 0; k < outputs; k++) fwrite(out[0][k].data, 1, out[0][k].size_bytes, stdout);
  hloom_rt_free(model);
  return 0;
}
