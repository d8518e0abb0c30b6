/* damaged: loads programs from memory, one after another, and says of each whether it was taken.
 *
 * In: for each its size (8 bytes) and its bytes. Out: `t` (taken) or `r` (refused, with words). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hloom_rt.h"

enum { PAGE = 4096 };

/* Of custom calls, which no program here comes to run. */
static int32_t kept(hl_context *context, const hl_call_frame *frame) {
  return (void)context, (void)frame, 0;
}

int main(void) {
  uint64_t size;
  hloom_rt_use_sort(), hloom_rt_use_fft(), hloom_rt_use_linalg();
  hloom_rt_use_dynamic(), hloom_rt_use_threads(), hloom_rt_use_devices();
  hloom_rt_register("kept", kept, NULL);
  while (fread(&size, sizeof size, 1, stdin) == 1) {
    char error[1000] = "";
    /* As it stands in a file: at a page, nothing behind it. Every other one is not at a page. */
    static int number;
    int shift = number++ % 2 ? 0 : 1;
    char *memory = aligned_alloc(PAGE, (size + shift + PAGE) / PAGE * PAGE);
    if (memory == NULL || fread(memory + shift, 1, size, stdin) != size) return 3;
    hloom_rt_program *model = hloom_rt_load_bytes(memory + shift, size, 1, error, sizeof error);
    if (model == NULL && error[0] == 0) {
      fprintf(stderr, "program %d is refused without words\n", number);
      return 4;
    }
    if (model != NULL) {
      /* All that can be asked without running what may be no code. */
      size_t inputs = hloom_rt_input_count(model), outputs = hloom_rt_output_count(model), all = 0;
      for (size_t k = 0; k <= inputs; k++) {
        hloom_rt_shape s = hloom_rt_input(model, k);
        if (s.name != NULL) all += strlen(s.name) + strlen(s.text);
      }
      for (size_t k = 0; k <= outputs; k++) {
        hloom_rt_shape s = hloom_rt_output(model, k);
        if (s.name != NULL) all += strlen(s.name) + strlen(s.text);
      }
      all += strlen(hloom_rt_name(model)) + hloom_rt_temp_bytes(model);
      if (hloom_rt_input_number(model, "no such name") != -1 || all == SIZE_MAX) return 5;
      hloom_rt_free(model);
    }
    putchar(model == NULL ? 'r' : 't');
    free(memory);
  }
  return fflush(stdout) != 0;
}
