/* runtime_devices WAY PROGRAM.hloom [OTHER.hloom]: runs with options, of devices that meet or of handlers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hloom_rt.h"

#define ALIGNED __attribute__((aligned(16)))
enum { TYPE = 77, DEVICES = 4, LAUNCHES = 3 };

static char error[1000];
static hloom_rt_program *model;

static int failed(const char *what) { return fprintf(stderr, "%s: %s\n", what, error), 1; }

static void add(void *at, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; k++) __atomic_fetch_add((int64_t *)at, k, __ATOMIC_RELAXED);
}

/* The values 1000 * local device + 100 * threads + what stands in the user data, + a sum by the pool. */
static int32_t looks(hl_context *context, const hl_call_frame *frame) {
  const float *data = hloom_rt_user_data_of(context, TYPE);
  int64_t sum = 0;
  if (hloom_rt_user_data_of(context, TYPE + 1) != NULL) return 13;
  hl_parallel_for(context, add, &sum, 1000, 10);
  float value = 1000.0f * (float)context->device + 100.0f * (float)context->threads;
  for (int64_t k = 0; k < frame->results[0].dims[0]; k++)
    ((float *)frame->results[0].data)[k] = value + (data ? *data : 0) + (float)(sum == 499500);
  return 0;
}

static int handlers(void) {
  float seven = 7;
  ALIGNED float x[4] = {0}, y[4];
  hloom_rt_array in[] = {{x, sizeof x}}, out[] = {{y, sizeof y}}, temp = {NULL, 0};
  temp.size_bytes = hloom_rt_temp_bytes(model);
  temp.data = aligned_alloc(64, temp.size_bytes + 64 - temp.size_bytes % 64);
  hloom_rt_user_data data[] = {{TYPE - 1, x}, {TYPE, &seven}};
  hloom_rt_options options = {.user_data = data, .user_data_count = 2, .local_device = 6};
  options.pool = hloom_rt_pool_new(3);
  if (hloom_rt_run_with(model, &options, in, out, temp, error, sizeof error)) return failed("run");
  printf("%g ", y[3]);
  hloom_rt_started *run = hloom_rt_start_with(model, &options, in, out, temp, error, sizeof error);
  data[1].data = NULL; /* it is copied */
  if (run == NULL || hloom_rt_wait(run, error, sizeof error)) return failed("start");
  printf("%g ", y[3]);
  if (hloom_rt_run(model, in, out, temp, error, sizeof error)) return failed("plain");
  printf("%g\n", y[3]);
  hloom_rt_pool_free(options.pool);
  free(temp.data);
  hloom_rt_free(model);
  return 0;
}

static int devices(const int64_t *assignment) {
  hloom_rt_devices *all = hloom_rt_devices_new(model, assignment, 5, error, sizeof error);
  if (all == NULL) return failed("devices");
  static ALIGNED float x[LAUNCHES][DEVICES][4], s[LAUNCHES][DEVICES][4];
  static ALIGNED uint32_t replica[LAUNCHES][DEVICES][4], partition[LAUNCHES][DEVICES][4];
  hloom_rt_started *runs[LAUNCHES][DEVICES];
  void *memory[LAUNCHES][DEVICES];
  size_t temp_bytes = hloom_rt_temp_bytes(model);
  for (int d = DEVICES - 1; d >= 0; d--)
    for (int l = 0; l < LAUNCHES; l++) {
      for (int k = 0; k < 3; k++) x[l][d][k] = (float)(100 * l + assignment[d]);
      hloom_rt_array in[] = {{x[l][d], 12}};
      hloom_rt_array out[] = {{replica[l][d], 4}, {partition[l][d], 4}, {s[l][d], 12}};
      hloom_rt_options options = {.devices = all, .device = assignment[d], .launch_id = l};
      memory[l][d] = aligned_alloc(64, temp_bytes + 64 - temp_bytes % 64);
      hloom_rt_array temp = {memory[l][d], temp_bytes};
      runs[l][d] = hloom_rt_start_with(model, &options, in, out, temp, error, sizeof error);
      if (runs[l][d] == NULL) return failed("start");
    }
  for (int l = 0; l < LAUNCHES; l++)
    for (int d = 0; d < DEVICES; d++) {
      if (hloom_rt_wait(runs[l][d], error, sizeof error)) return failed("wait");
      free(memory[l][d]);
      printf("%d %lld: %u %u %g\n", l, (long long)assignment[d], *replica[l][d], *partition[l][d],
             s[l][d][2]);
    }
  hloom_rt_devices_free(all);
  return 0;
}

/* One of four comes, the others never do. */
static int alone(void) {
  ALIGNED float x[4] = {0}, s[4];
  ALIGNED uint32_t r[4], p[4];
  hloom_rt_array in[] = {{x, 12}}, out[] = {{r, 4}, {p, 4}, {s, 12}};
  hloom_rt_array temp = {aligned_alloc(64, 1 << 16), 1 << 16};
  hloom_rt_options options = {.device = 2};
  if (hloom_rt_run(model, in, out, temp, error, sizeof error) != HL_INVALID_ARGUMENT) return 1;
  printf("%s\n", error);
  options.devices = hloom_rt_devices_new(model, NULL, 0.2, error, sizeof error);
  if (hloom_rt_run_with(model, &options, in, out, temp, error, sizeof error) == 0) return 1;
  printf("%s\n", error);
  options.device = 9;
  if (hloom_rt_run_with(model, &options, in, out, temp, error, sizeof error) == 0) return 1;
  printf("%s\n", error);
  int64_t twice[] = {0, 1, 1, 3};
  if (hloom_rt_devices_new(model, twice, 0, error, sizeof error) != NULL) return 1;
  printf("%s\n", error);
  hloom_rt_devices_free(options.devices);
  free(temp.data);
  return 0;
}

/* A run of one program on the devices of another one, which is for two. */
static int strangers(const char *path) {
  ALIGNED float x[4] = {0}, s[4];
  ALIGNED uint32_t r[4], p[4];
  hloom_rt_array in[] = {{x, 12}}, out[] = {{r, 4}, {p, 4}, {s, 12}};
  hloom_rt_array temp = {aligned_alloc(64, 1 << 16), 1 << 16};
  hloom_rt_program *two = hloom_rt_load(path, 1, error, sizeof error);
  if (two == NULL) return failed("load");
  hloom_rt_options options = {.devices = hloom_rt_devices_new(two, NULL, 0, error, sizeof error)};
  if (options.devices == NULL) return failed("devices");
  if (hloom_rt_run_with(model, &options, in, out, temp, error, sizeof error) == 0) return 1;
  printf("%s\n", error);
  if (hloom_rt_start_with(model, &options, in, out, temp, error, sizeof error) != NULL) return 1;
  printf("%s\n", error);
  hloom_rt_devices_free(options.devices);
  hloom_rt_free(two);
  free(temp.data);
  return 0;
}

int main(int count, char **words) {
  if (count != 3 && count != 4) return 2;
  const char *way = words[1];
  if (strcmp(way, "without") != 0) hloom_rt_use_devices();
  hloom_rt_register("looks_in_c", looks, NULL);
  model = hloom_rt_load(words[2], 1, error, sizeof error);
  if (model == NULL) return failed("load");
  if (strcmp(way, "handlers") == 0) return handlers();
  if (hloom_rt_replica_count(model) != 2 || hloom_rt_partition_count(model) != 2) return 3;
  if (strcmp(way, "alone") == 0) return alone();
  if (strcmp(way, "strangers") == 0 && count == 4) return strangers(words[3]);
  int64_t natural[] = {0, 1, 2, 3}, other[] = {12, 7, 10, 4};
  return devices(strcmp(way, "natural") == 0 ? natural : other);
}
