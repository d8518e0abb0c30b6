// Runs tanh(x @ w) on hloom: from a program that save.py compiled and saved ("saved"), or from its
// StableHLO ("compile"). Knows nothing of Python, nor of hloom but that it is a PJRT plugin.
//
//     run PLUGIN.so saved layer.hloom        needs no Python
//     run PLUGIN.so compile layer.mlirbc     the plugin starts one, to compile
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"  // hloom/runtime/native/pjrt/: any header of the PJRT C API does

enum { ROWS = 4, DEPTH = 8, COLUMNS = 3 };
static const PJRT_Api* api;

static void check(PJRT_Error* error) {
  if (error == NULL) return;
  PJRT_Error_Message_Args words = {.struct_size = sizeof(words), .error = error};
  api->PJRT_Error_Message(&words);
  fprintf(stderr, "%.*s\n", (int)words.message_size, words.message);
  PJRT_Error_Destroy_Args gone = {.struct_size = sizeof(gone), .error = error};
  api->PJRT_Error_Destroy(&gone);
  exit(1);
}

// Calls a function of the table on a new struct of its arguments, whose name is `a`.
#define CALL(name, ...)                                                                   \
  PJRT_##name##_Args a = {.struct_size = sizeof(a), __VA_ARGS__};                         \
  check(api->PJRT_##name(&a))

static void wait_for(PJRT_Event* event) {
  { CALL(Event_Await, .event = event); }
  { CALL(Event_Destroy, .event = event); }
}

static char* contents(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) { perror(path); exit(1); }
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  char* bytes = malloc(*size + 1);
  if (fread(bytes, 1, *size, file) != *size) { perror(path); exit(1); }
  fclose(file);
  return bytes;
}

static PJRT_LoadedExecutable* saved(PJRT_Client* client, char* bytes, size_t size) {
  CALL(Executable_DeserializeAndLoad, .client = client, .serialized_executable = bytes,
       .serialized_executable_size = size);
  return a.loaded_executable;
}

static PJRT_LoadedExecutable* compiled(PJRT_Client* client, char* bytes, size_t size) {
  PJRT_Program program = {.struct_size = sizeof(program), .code = bytes, .code_size = size,
                          .format = "mlir", .format_size = 4};
  CALL(Client_Compile, .client = client, .program = &program);
  return a.executable;
}

static PJRT_Buffer* on_device(PJRT_Client* client, PJRT_Device* device, const float* data,
                              int64_t rows, int64_t columns) {
  int64_t dims[] = {rows, columns};
  CALL(Client_BufferFromHostBuffer, .client = client, .device = device, .data = data,
       .type = PJRT_Buffer_Type_F32, .dims = dims, .num_dims = 2,
       .host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall);
  wait_for(a.done_with_host_buffer);
  return a.buffer;
}

static PJRT_Buffer* result_of(PJRT_LoadedExecutable* executable, PJRT_Buffer** arguments) {
  PJRT_ExecuteOptions options = {.struct_size = sizeof(options)};
  PJRT_Buffer *result, **results = &result;
  PJRT_Event* done;
  CALL(LoadedExecutable_Execute, .executable = executable, .options = &options,
       .argument_lists = (PJRT_Buffer* const* const*)&arguments, .num_devices = 1, .num_args = 2,
       .output_lists = (PJRT_Buffer** const*)&results, .device_complete_events = &done);
  wait_for(done);
  return result;
}

int main(int count, char** words) {
  int is_saved = count == 4 && strcmp(words[2], "saved") == 0;
  if (count != 4 || (!is_saved && strcmp(words[2], "compile") != 0))
    return fprintf(stderr, "run PLUGIN.so saved|compile FILE\n"), 2;
  void* library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
  const PJRT_Api* (*get)(void) = (const PJRT_Api* (*)(void))dlsym(library, "GetPjrtApi");
  if (get == NULL) return fprintf(stderr, "%s is no PJRT plugin\n", words[1]), 1;
  api = get();
  PJRT_Client* client;
  PJRT_Device* device;
  { CALL(Client_Create, .create_options = NULL); client = a.client; }
  { CALL(Client_AddressableDevices, .client = client); device = a.addressable_devices[0]; }

  size_t size;
  char* bytes = contents(words[3], &size);
  PJRT_LoadedExecutable* executable = (is_saved ? saved : compiled)(client, bytes, size);
  free(bytes);

  float x[ROWS * DEPTH], w[DEPTH * COLUMNS], y[ROWS * COLUMNS];
  for (int k = 0; k < ROWS * DEPTH; ++k) x[k] = sinf((float)k);
  for (int k = 0; k < DEPTH * COLUMNS; ++k) w[k] = cosf((float)k) / DEPTH;
  PJRT_Buffer* arguments[] = {on_device(client, device, x, ROWS, DEPTH),
                              on_device(client, device, w, DEPTH, COLUMNS)};
  PJRT_Buffer* result = result_of(executable, arguments);
  { CALL(Buffer_ToHostBuffer, .src = result, .dst = y, .dst_size = sizeof(y)); wait_for(a.event); }

  double worst = 0;
  for (int r = 0; r < ROWS; ++r)
    for (int c = 0; c < COLUMNS; ++c) {
      double sum = 0;
      for (int k = 0; k < DEPTH; ++k) sum += (double)x[r * DEPTH + k] * w[k * COLUMNS + c];
      worst = fmax(worst, fabs(tanh(sum) - y[r * COLUMNS + c]));
    }
  printf("tanh(x @ w): %g %g %g ..., largest error %.2g\n", y[0], y[1], y[2], worst);
  { CALL(Buffer_Destroy, .buffer = result); }
  for (int k = 0; k < 2; ++k) { CALL(Buffer_Destroy, .buffer = arguments[k]); }
  { CALL(LoadedExecutable_Destroy, .executable = executable); }
  { CALL(Client_Destroy, .client = client); }
  return worst < 1e-5 ? 0 : 1;
}
