// Handlers compiled against XLA's public FFI headers, and custom calls of the older kind, called
// through our own frames. The structs below state that ABI (version 0.3): sizes, order, numbers.
#pragma once
#include "custom_call.h"

namespace hloom {
namespace ffi {

struct Extension {
  size_t struct_size;
  int32_t type;
  Extension* next;
};
struct Span {
  const char* data;
  size_t size;
};
struct Scalar {
  int32_t dtype;
  void* value;
};
struct Array {
  int32_t dtype;
  size_t size;
  void* data;
};
struct TypeId {
  int64_t id;
};
struct Error;
struct Future;
struct Context;
struct Api;

struct Buffer {
  size_t struct_size;
  Extension* extension;
  int32_t dtype;
  void* data;
  int64_t rank;
  int64_t* dims;
};
struct List {
  size_t struct_size;
  Extension* extension;
  int64_t size;
  int32_t* types;
  void** items;
};
struct Attributes {
  size_t struct_size;
  Extension* extension;
  int64_t size;
  int32_t* types;
  Span** names;
  void** values;
};
struct CallFrame {
  size_t struct_size;
  Extension* extension;
  const Api* api;
  Context* context;
  int32_t stage;
  List arguments, results;
  Attributes attributes;
  Future* future;
};
typedef Error* Handler(CallFrame*);
struct Bundle {
  Handler* stages[4];  // instantiate, prepare, initialize, execute
  uintptr_t apart;     // not 0: elements below a byte have a byte each
};

struct Version {
  size_t struct_size;
  Extension* extension;
  int major, minor;
};
struct Metadata {
  size_t struct_size;
  Version version;
  uint32_t traits;
  TypeId state_type;
};
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

// Arguments of the functions of the table; each begins with these two.
struct Head {
  size_t struct_size;
  Extension* extension;
};
struct ErrorCreate : Head {
  const char* message;
  int32_t code;
};
struct ErrorGetMessage : Head {
  Error* error;
  const char* message;
  int32_t code;
};  // code: since 0.4
struct ErrorDestroy : Head {
  Error* error;
};
struct TypeInfo : Head {
  void (*deleter)(void*);
};
struct TypeRegister : Head {
  Span name;
  TypeId* id;
  const TypeInfo* info;
};
struct ContextGet : Head {
  Context* context;
  TypeId* id;
  void* data;
};
struct State : Head {
  Context* context;
  int32_t stage;
  TypeId* id;
  void* state;
};
struct StreamGet : Head {
  Context* context;
  void* stream;
};
struct MemoryAllocate : Head {
  Context* context;
  size_t size, alignment;
  void* data;
};
struct MemoryFree : Head {
  Context* context;
  size_t size;
  void* data;
};
struct Schedule : Head {
  Context* context;
  void (*task)(void*);
  void* data;
};
struct NumThreads : Head {
  Context* context;
  int64_t* threads;
};
struct FutureCreate : Head {
  Future* future;
};
struct FutureSetAvailable : Head {
  Future* future;
};
struct FutureSetError : Head {
  Future* future;
  Error* error;
};
struct RunIdGet : Head {
  Context* context;
  int64_t run_id;
};
struct DeviceOrdinalGet : Head {
  Context* context;
  int32_t ordinal;
};
struct ExtensionFind : Head {
  Context* context;
  int64_t type;
  const void* found;
};
struct OptionsGet : Head {
  Context* context;
  const Attributes* options;
};

struct Api {
  size_t struct_size;
  Extension* extension;
  Version version;
  const void* internal;
  Error* (*error_create)(ErrorCreate*);
  void (*error_get_message)(ErrorGetMessage*);
  void (*error_destroy)(ErrorDestroy*);
  Error* (*handler_register)(Head*);
  Error* (*stream_get)(StreamGet*);
  Error* (*type_register)(TypeRegister*);
  Error* (*context_get)(ContextGet*);
  Error* (*state_set)(State*);
  Error* (*state_get)(State*);
  Error* (*memory_allocate)(MemoryAllocate*);
  Error* (*memory_free)(MemoryFree*);
  Error* (*schedule)(Schedule*);
  Error* (*num_threads)(NumThreads*);
  Error* (*future_create)(FutureCreate*);
  Error* (*future_set_available)(FutureSetAvailable*);
  Error* (*future_set_error)(FutureSetError*);
  Error* (*run_id_get)(RunIdGet*);
  Error* (*device_ordinal_get)(DeviceOrdinalGet*);
  Error* (*extension_find)(ExtensionFind*);  // since 0.4
  Error* (*options_get)(OptionsGet*);        // since 0.5
};

}  // namespace ffi
}  // namespace hloom

// The handler of all calls whose own handler is one of the FFI's.
HL_API int32_t hl_xla_ffi_call(hl_context* context, const hl_call_frame* frame);
// Gives back what the stages of a call site keep; `state` is the slot of its frames.
HL_API void hl_xla_ffi_state_free(void** state);
HL_API int32_t hl_xla_ffi_type_register(const char* name, int64_t name_size, void* id,
                                        const void* info);
