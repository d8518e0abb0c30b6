#include <stdio.h>

#include "step.h"

static char workspace[STEP_WORKSPACE_BYTES + 1] __attribute__((aligned(STEP_WORKSPACE_ALIGNMENT)));

int main(void) {
  float state[STEP_INPUT_state_DIM0] = {0}, x[] = {1, 2, 3}, twice[STEP_OUTPUT_twice_DIM0];
  step_arrays a = {.state = state, .x = x, .next = state, .twice = twice, .workspace = workspace};
  for (int k = 0; k < 3; k++) {
    int status = step_call(&a);
    if (status) return fprintf(stderr, "%s\n", step_error(status)), 1;
    printf("%.2f %.2f\n", state[0], twice[3]);
  }
  return 0;
}
