// Custom calls: what a handler is given, and the registry of handlers. See ROUTINES.md.
#pragma once
#include "hl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int64_t dtype;
  int64_t rank;
  const int64_t* dims;
  void* data;
} hl_buffer;

enum {
  HL_ATTRIBUTE_ARRAY = 1,
  HL_ATTRIBUTE_DICTIONARY = 2,
  HL_ATTRIBUTE_SCALAR = 3,
  HL_ATTRIBUTE_STRING = 4
};

typedef struct hl_attribute {
  const char* name;
  int64_t name_size;
  int64_t kind;
  int64_t dtype;     // of the elements of an array, of a scalar
  int64_t count;     // elements, entries, bytes of a string; 1 for a scalar
  const void* data;  // elements, hl_attribute entries, characters, or the scalar
} hl_attribute;

enum {
  HL_STAGE_INSTANTIATE = 0,
  HL_STAGE_PREPARE = 1,
  HL_STAGE_INITIALIZE = 2,
  HL_STAGE_EXECUTE = 3
};

// A bit beside those of the stages: calls keep the order of the program.
enum { HL_HANDLER_IN_ORDER = 1 << 16 };

typedef struct {
  int64_t operand_count;
  const hl_buffer* operands;
  int64_t result_count;
  const hl_buffer* results;
  int64_t attribute_count;
  const hl_attribute* attributes;
  int64_t stage;
  int64_t run_id;
  void** state;  // a slot of the call site that lives as long as the executable
  void* user;    // what was registered with the handler
} hl_call_frame;

typedef int32_t (*hl_handler)(hl_context* context, const hl_call_frame* frame);
typedef struct hl_custom_call hl_custom_call;

int32_t hl_custom_call_register(const char* name, hl_handler handler, void* user, int64_t stages);
const hl_custom_call* hl_custom_call_find(const char* name);
// Whether it is this function that answers in the execute stage.
int32_t hl_custom_call_uses(const hl_custom_call* call, hl_handler handler);
int32_t hl_custom_call_run(hl_context* context, const hl_custom_call* call,
                           const hl_call_frame* frame);

#ifdef __cplusplus
}
#endif
