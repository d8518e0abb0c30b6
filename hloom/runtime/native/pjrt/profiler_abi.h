// The extension through which hosts of PJRT plugins profile them: a table of its own, with errors of
// its own. As jaxlib 0.10 and 0.11 have it; every size is asserted.
#ifndef HLOOM_RUNTIME_PJRT_PROFILER_ABI_H
#define HLOOM_RUNTIME_PJRT_PROFILER_ABI_H

#include "abi.h"

extern "C" {

typedef struct PLUGIN_Profiler PLUGIN_Profiler;
typedef struct PLUGIN_Profiler_Error PLUGIN_Profiler_Error;

// What functions about errors take; one of the fields behind `error` is the answer.
typedef struct {
  size_t struct_size;
  void* priv;
  PLUGIN_Profiler_Error* error;
} PLUGIN_Profiler_Error_Destroy_Args;

typedef struct {
  size_t struct_size;
  void* priv;
  PLUGIN_Profiler_Error* error;
  const char* message;
  size_t message_size;
} PLUGIN_Profiler_Error_Message_Args;

typedef struct {
  size_t struct_size;
  void* priv;
  PLUGIN_Profiler_Error* error;
  int code;
} PLUGIN_Profiler_Error_GetCode_Args;

typedef struct {
  size_t struct_size;
  const char* options;  // a serialized ProfileOptions
  size_t options_size;
  PLUGIN_Profiler* profiler;
} PLUGIN_Profiler_Create_Args;

// Of Destroy, Start and Stop.
typedef struct {
  size_t struct_size;
  PLUGIN_Profiler* profiler;
} PLUGIN_Profiler_Args;

// Without a buffer it gives one, which stays as long as the profiler; with one it fills it.
typedef struct {
  size_t struct_size;
  PLUGIN_Profiler* profiler;
  uint8_t* buffer;
  size_t buffer_size_in_bytes;
} PLUGIN_Profiler_CollectData_Args;

typedef struct {
  size_t struct_size;
  void* priv;
  void (*error_destroy)(PLUGIN_Profiler_Error_Destroy_Args*);
  void (*error_message)(PLUGIN_Profiler_Error_Message_Args*);
  PLUGIN_Profiler_Error* (*error_get_code)(PLUGIN_Profiler_Error_GetCode_Args*);
  PLUGIN_Profiler_Error* (*create)(PLUGIN_Profiler_Create_Args*);
  PLUGIN_Profiler_Error* (*destroy)(PLUGIN_Profiler_Args*);
  PLUGIN_Profiler_Error* (*start)(PLUGIN_Profiler_Args*);
  PLUGIN_Profiler_Error* (*stop)(PLUGIN_Profiler_Args*);
  PLUGIN_Profiler_Error* (*collect_data)(PLUGIN_Profiler_CollectData_Args*);
} PLUGIN_Profiler_Api;

typedef struct {
  PJRT_Extension_Base base;
  PLUGIN_Profiler_Api* profiler_api;
  int64_t traceme_context_id;  // only where it stands behind the arguments of a function
} PJRT_Profiler_Extension;

}  // extern "C"

static_assert(sizeof(PLUGIN_Profiler_Api) == 80);
static_assert(sizeof(PLUGIN_Profiler_Create_Args) == 32);
static_assert(sizeof(PLUGIN_Profiler_Args) == 16);
static_assert(sizeof(PLUGIN_Profiler_CollectData_Args) == 32);
static_assert(sizeof(PJRT_Profiler_Extension) == 40);

#endif
