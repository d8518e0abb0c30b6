// Extensions of the table: layouts, shardings, memory descriptions, foreign functions.
#include <string.h>

#include "../custom_call.h"
#include "../xla_ffi.h"
#include "entries.h"
#include "profiler.h"
#include "program.h"

struct PJRT_Layouts_MemoryLayout {
  const hloom::pjrt::Layout* layout;
};

struct PJRT_MemoryDescription {
  const char* kind;
  int kind_id;
};

namespace hloom::pjrt {
namespace {

// -- layouts

PJRT_Error* layout_destroy(PJRT_Layouts_MemoryLayout_Destroy_Args* a) {
  delete a->layout;
  return nullptr;
}

PJRT_Error* layout_serialize(PJRT_Layouts_MemoryLayout_Serialize_Args* a) {
  a->serialized_bytes = a->layout->layout->text.data();
  a->serialized_bytes_size = a->layout->layout->text.size();
  a->serialized_layout = nullptr;
  a->serialized_layout_deleter = [](PJRT_Layouts_SerializedLayout*) {};
  return nullptr;
}

PJRT_Error* default_layout(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args* a) {
  a->layout = new PJRT_Layouts_MemoryLayout{row_major(static_cast<int64_t>(a->num_dims))};
  return nullptr;
}

PJRT_Error* topology_layout(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args* a) {
  a->layout = new PJRT_Layouts_MemoryLayout{row_major(static_cast<int64_t>(a->num_dims))};
  return nullptr;
}

PJRT_Error* buffer_layout(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args* a) {
  a->layout = new PJRT_Layouts_MemoryLayout{a->buffer->layout};
  return nullptr;
}

template <typename Arrays>
PJRT_Layouts_MemoryLayout** layouts_of(const Arrays& arrays, size_t* count) {
  auto** made = new PJRT_Layouts_MemoryLayout*[arrays.size() + 1];
  for (size_t k = 0; k < arrays.size(); ++k)
    made[k] = new PJRT_Layouts_MemoryLayout{arrays[k].layout};
  *count = arrays.size();
  return made;
}

PJRT_Error* output_layouts(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args* a) {
  a->layouts = layouts_of(a->executable->program->results, &a->num_outputs);
  return nullptr;
}

PJRT_Error* parameter_layouts(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args* a) {
  a->layouts = layouts_of(a->executable->program->arguments, &a->num_parameters);
  return nullptr;
}

// -- shardings

template <typename Arrays>
void fill_shardings(PJRT_Executable* e, int which, const Arrays& arrays) {
  std::lock_guard<std::mutex> guard(e->mutex);
  if (!e->shardings[which].empty()) return;
  for (const Array& array : arrays) {
    e->shardings[which].push_back(array.sharding.data());
    e->sharding_sizes[which].push_back(array.sharding.size());
  }
  e->shardings[which].push_back(nullptr);  // so that there is memory even for no arrays
}

PJRT_Error* parameter_shardings(PJRT_Shardings_PJRT_Executable_ParameterShardings_Args* a) {
  const Program& program = *a->executable->program;
  fill_shardings(a->executable, 0, program.arguments);
  a->num_parameters = program.arguments.size();
  a->shardings = program.partitions > 1 ? a->executable->shardings[0].data() : nullptr;
  a->sharding_sizes = a->executable->sharding_sizes[0].data();
  return nullptr;
}

PJRT_Error* output_shardings(PJRT_Shardings_PJRT_Executable_OutputShardings_Args* a) {
  const Program& program = *a->executable->program;
  fill_shardings(a->executable, 1, program.results);
  a->num_outputs = program.results.size();
  bool said = program.partitions > 1 && !program.results.empty();  // jaxlib wants none of nothing
  a->shardings = said ? a->executable->shardings[1].data() : nullptr;
  a->sharding_sizes = a->executable->sharding_sizes[1].data();
  return nullptr;
}

// -- memory descriptions

PJRT_Error* memory_descriptions(PJRT_DeviceDescription_MemoryDescriptions_Args* a) {
  static const PJRT_MemoryDescription all[kMemoryKinds] = {
      {kKinds[0], 0}, {kKinds[1], 1}, {kKinds[2], 2}};
  static const PJRT_MemoryDescription* const listed[kMemoryKinds] = {all, all + 1, all + 2};
  a->memory_descriptions = listed;
  a->num_memory_descriptions = kMemoryKinds;
  a->default_memory_index = 0;
  return nullptr;
}

PJRT_Error* memory_kind(PJRT_MemoryDescription_Kind_Args* a) {
  a->kind = a->memory_description->kind;
  a->kind_size = strlen(a->kind);
  a->kind_id = a->memory_description->kind_id;
  return nullptr;
}

// -- foreign functions

PJRT_Error* type_register(PJRT_FFI_Type_Register_Args* a) {
  hloom::ffi::TypeId id{a->type_id};
  hloom::ffi::TypeInfo info{};
  info.deleter = a->type_info == nullptr ? nullptr : a->type_info->deleter;
  if (hl_xla_ffi_type_register(a->type_name, static_cast<int64_t>(a->type_name_size), &id, &info))
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                    "the type %.*s is registered under another number already [ffi-type]",
                    static_cast<int>(a->type_name_size), a->type_name);
  a->type_id = id.id;
  return nullptr;
}

PJRT_Error* user_data_add(PJRT_FFI_UserData_Add_Args* a) {
  a->context->data.push_back(a->user_data);
  return nullptr;
}

// Handlers stay for ever, as those of hloom's own registry do.
PJRT_Error* register_handler(PJRT_FFI_Register_Handler_Args* a) {
  auto* bundle = new hloom::ffi::Bundle{};
  bundle->stages[HL_STAGE_EXECUTE] = reinterpret_cast<hloom::ffi::Handler*>(a->handler);
  std::string name(a->target_name, a->target_name_size);
  if (hl_custom_call_register(name.c_str(), hl_xla_ffi_call, bundle, 1 << HL_STAGE_EXECUTE))
    return failure(PJRT_Error_Code_RESOURCE_EXHAUSTED, "no memory for a handler [out-of-memory]");
  return nullptr;
}

template <typename Extension>
void begin(Extension* extension, PJRT_Extension_Type type, PJRT_Extension_Base** chain) {
  extension->base.struct_size = sizeof(Extension);
  extension->base.type = type;
  extension->base.next = *chain;
  *chain = &extension->base;
}

PJRT_Extension_Base* made() {
  PJRT_Extension_Base* chain = nullptr;
  static PJRT_Layouts_Extension layouts;
  begin(&layouts, PJRT_Extension_Type_Layouts, &chain);
  layouts.PJRT_Layouts_MemoryLayout_Destroy = layout_destroy;
  layouts.PJRT_Layouts_MemoryLayout_Serialize = layout_serialize;
  layouts.PJRT_Layouts_PJRT_Client_GetDefaultLayout = default_layout;
  layouts.PJRT_Layouts_PJRT_Buffer_MemoryLayout = buffer_layout;
  layouts.PJRT_Layouts_PJRT_Topology_GetDefaultLayout = topology_layout;
  layouts.PJRT_Layouts_PJRT_Executable_GetOutputLayouts = output_layouts;
  layouts.PJRT_Layouts_PJRT_Executable_GetParameterLayouts = parameter_layouts;
  static PJRT_Shardings_Extension shardings;
  begin(&shardings, PJRT_Extension_Type_Shardings, &chain);
  shardings.PJRT_Shardings_PJRT_Executable_ParameterShardings = parameter_shardings;
  shardings.PJRT_Shardings_PJRT_Executable_OutputShardings = output_shardings;
  static PJRT_MemoryDescriptions_Extension descriptions;
  begin(&descriptions, PJRT_Extension_Type_MemoryDescriptions, &chain);
  descriptions.PJRT_DeviceDescription_MemoryDescriptions = memory_descriptions;
  descriptions.PJRT_MemoryDescription_Kind = memory_kind;
  static PJRT_FFI_Extension ffi;
  begin(&ffi, PJRT_Extension_Type_FFI, &chain);
  ffi.type_register = type_register;
  ffi.user_data_add = user_data_add;
  ffi.register_handler = register_handler;
  static PJRT_Profiler_Extension profiler;
  begin(&profiler, PJRT_Extension_Type_Profiler, &chain);
  profiler.profiler_api = profiler_api();
  return chain;
}

}  // namespace

PJRT_Extension_Base* extensions() {
  static PJRT_Extension_Base* const chain = made();
  return chain;
}

PJRT_Error* ExecuteContext_Create(PJRT_ExecuteContext_Create_Args* a) {
  a->context = new PJRT_ExecuteContext;
  return nullptr;
}

PJRT_Error* ExecuteContext_Destroy(PJRT_ExecuteContext_Destroy_Args* a) {
  delete a->context;
  return nullptr;
}

}  // namespace hloom::pjrt
