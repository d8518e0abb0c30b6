/* Runs a saved program: main PROGRAM.hloom. Inputs are 0, 1, 2, ... as floats, or zeros. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hloom_rt.h"

enum { MOST = 16 };

static void *memory(size_t size) {
  void *data = aligned_alloc(64, (size + 63) / 64 * 64 + 64);
  if (data == NULL) exit(3);
  memset(data, 0, size);
  return data;
}

int main(int count, char **words) {
  char error[1000] = "";
  if (count != 2) return fprintf(stderr, "main PROGRAM.hloom\n"), 2;
  hloom_rt_use_sort(); /* what programs of this one may call */
  hloom_rt_program *model = hloom_rt_load(words[1], 1, error, sizeof error);
  if (model == NULL) return fprintf(stderr, "%s\n", error), 1;

  size_t inputs = hloom_rt_input_count(model), outputs = hloom_rt_output_count(model);
  hloom_rt_array in[MOST], out[MOST], temp;
  if (inputs > MOST || outputs > MOST) return fprintf(stderr, "too many arrays\n"), 1;
  for (size_t k = 0; k < inputs; k++) {
    hloom_rt_shape shape = hloom_rt_input(model, k);
    in[k] = (hloom_rt_array){memory(shape.size_bytes), shape.size_bytes};
    if (strncmp(shape.text, "f32", 3) == 0)
      for (size_t n = 0; n < shape.size_bytes / 4; n++) ((float *)in[k].data)[n] = (float)n;
    printf("input %zu: %s\n", k, shape.text);
  }
  for (size_t k = 0; k < outputs; k++) {
    hloom_rt_shape shape = hloom_rt_output(model, k);
    void *data = shape.in_place >= 0 ? in[shape.in_place].data : memory(shape.size_bytes);
    out[k] = (hloom_rt_array){data, shape.size_bytes};
  }
  temp = (hloom_rt_array){memory(hloom_rt_temp_bytes(model)), hloom_rt_temp_bytes(model)};

  hloom_rt_started *run = hloom_rt_start(model, in, out, temp, error, sizeof error);
  if (run == NULL || hloom_rt_wait(run, error, sizeof error)) return fprintf(stderr, "%s\n", error), 1;
  for (size_t k = 0; k < outputs; k++)
    printf("output %zu: %s, first bytes %02x%02x%02x%02x\n", k, hloom_rt_output(model, k).text,
           ((unsigned char *)out[k].data)[0], ((unsigned char *)out[k].data)[1],
           ((unsigned char *)out[k].data)[2], ((unsigned char *)out[k].data)[3]);

  for (size_t k = 0; k < outputs; k++)
    if (hloom_rt_output(model, k).in_place < 0) free(out[k].data);
  for (size_t k = 0; k < inputs; k++) free(in[k].data);
  free(temp.data);
  hloom_rt_free(model);
  return 0;
}
