// Compiling, loading, and what is asked about executables.
#include <string.h>

#include <algorithm>

#include "entries.h"
#include "loading.h"
#include "profiler.h"

namespace hloom::pjrt {
namespace {

PJRT_Error* nobody() {
  return failure(
      PJRT_Error_Code_FAILED_PRECONDITION,
      "hloom's compiler is not loaded in this process, or it is about to end [compiler]");
}

// The reply's program, or its error.
PJRT_Error* program_of(const hl_pjrt_reply& reply, Ref<Program>* program) {
  if (reply.code != 0) return failure(static_cast<int>(reply.code), reply.message);
  if (reply.program == nullptr)
    return failure(PJRT_Error_Code_INTERNAL, "the compiler gave no program [compiler]");
  *program = reply.program;
  return nullptr;
}

PJRT_Error* compiled(const PJRT_Program* code, const char* options, size_t options_size,
                     const std::string& topology, Ref<Program>* program) {
  if (PJRT_Error* error = have_compiler()) return error;
  Compiler compiler;
  if (!compiler) return nobody();
  Span span("Compile");
  hl_pjrt_reply reply;
  compiler->compile(code->code, code->code_size, code->format, code->format_size, options,
                    options_size, topology.data(), topology.size(), &reply);
  span.name(reply.program.get());
  return program_of(reply, program);
}

PJRT_Error* loaded(PJRT_Client* client, const Ref<Program>& program, PJRT_LoadedExecutable** made) {
  std::vector<int64_t> ids = program->devices;
  int64_t wanted = program->replicas * program->partitions;
  if (!program->is_portable && ids.empty())
    for (int64_t k = 0; k < wanted; ++k) ids.push_back(k);
  auto executable = std::make_unique<PJRT_LoadedExecutable>();
  executable->client = client;
  executable->program = program;
  for (size_t k = 0; k < ids.size(); ++k) {
    if (ids[k] < 0 || ids[k] >= static_cast<int64_t>(client->listed.size()))
      return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                      "%s is compiled for device %lld; there are %zu [device]",
                      program->name.c_str(), static_cast<long long>(ids[k]), client->listed.size());
    PJRT_Device* device = client->listed[ids[k]];
    executable->assigned.push_back(device->description);
    if (device->description->process != client->process) continue;
    executable->devices.push_back(device);
    executable->positions.push_back(static_cast<int64_t>(k));
    executable->logical.push_back(
        {static_cast<int>(k / program->partitions), static_cast<int>(k % program->partitions)});
  }
  *made = executable.release();
  return nullptr;
}

std::string saved_topology(const PJRT_TopologyDescription* topology) {
  PJRT_TopologyDescription_Serialize_Args a{};
  a.topology = const_cast<PJRT_TopologyDescription*>(topology);
  TopologyDescription_Serialize(&a);
  std::string text(a.serialized_bytes, a.serialized_bytes_size);
  a.serialized_topology_deleter(a.serialized_topology);
  return text;
}

PJRT_Error* ask(const Ref<Program>& program, int64_t what, hl_pjrt_reply* reply) {
  if (program->handle <= 0)
    return failure(PJRT_Error_Code_FAILED_PRECONDITION,
                   "an executable that was loaded without the compiler tells neither its HLO, cost "
                   "and options, nor is it saved again [compiler]");
  Compiler compiler;
  if (!compiler) return nobody();
  compiler->ask(program->handle, what, reply);
  return reply->code == 0 ? nullptr : failure(static_cast<int>(reply->code), reply->message);
}

// Bytes that the caller gives back.
template <typename Held>
struct Given {
  static Held* hold(std::string text, const char** bytes, size_t* size) {
    auto* held = new std::string(std::move(text));
    *bytes = held->data();
    *size = held->size();
    return reinterpret_cast<Held*>(held);
  }
  static void give_back(Held* held) { delete reinterpret_cast<std::string*>(held); }
};

}  // namespace

PJRT_Error* Client_Compile(PJRT_Client_Compile_Args* a) {
  Ref<Program> program;
  if (PJRT_Error* error = compiled(a->program, a->compile_options, a->compile_options_size,
                                   saved_topology(a->client->topology.get()), &program))
    return error;
  return loaded(a->client, program, &a->executable);
}

PJRT_Error* Compile(PJRT_Compile_Args* a) {
  Ref<Program> program;
  if (PJRT_Error* error = compiled(a->program, a->compile_options, a->compile_options_size,
                                   saved_topology(a->topology), &program))
    return error;
  a->executable = new PJRT_Executable(std::move(program));
  return nullptr;
}

PJRT_Error* Client_Load(PJRT_Client_Load_Args* a) {
  return loaded(a->client, a->executable->program, &a->loaded_executable);
}

PJRT_Error* Executable_DeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args* a) {
  Ref<Program> program;
  if (!Compiler{} && a->overridden_serialized_compile_options_size == 0) {
    PJRT_Error* error =
        program_in(a->serialized_executable, a->serialized_executable_size, &program);
    return error != nullptr ? error : loaded(a->client, program, &a->loaded_executable);
  }
  if (PJRT_Error* error = have_compiler()) return error;
  Compiler compiler;
  if (!compiler) return nobody();
  Span span("Load");
  hl_pjrt_reply reply;
  compiler->load(a->serialized_executable, a->serialized_executable_size,
                 a->overridden_serialized_compile_options,
                 a->overridden_serialized_compile_options_size, &reply);
  span.name(reply.program.get());
  if (PJRT_Error* error = program_of(reply, &program)) return error;
  return loaded(a->client, program, &a->loaded_executable);
}

// -- loaded executables

PJRT_Error* LoadedExecutable_Destroy(PJRT_LoadedExecutable_Destroy_Args* a) {
  delete a->executable;
  return nullptr;
}

HL_ANSWERS(LoadedExecutable_Delete, a->executable->is_deleted = true)
HL_ANSWERS(LoadedExecutable_IsDeleted, a->is_deleted = a->executable->is_deleted)
HL_ANSWERS(LoadedExecutable_GetExecutable,
           a->executable = new PJRT_Executable(a->loaded_executable->program))
HL_ANSWERS(LoadedExecutable_AddressableDevices,
           tell(a->executable->devices, &a->addressable_devices, &a->num_addressable_devices))
HL_ANSWERS(LoadedExecutable_AddressableDeviceLogicalIds,
           tell(a->executable->logical, &a->addressable_device_logical_ids,
                &a->num_addressable_device_logical_ids))

static void append_varint(std::string* to, uint64_t value) {
  while (value >= 0x80) {
    to->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  to->push_back(static_cast<char>(value));
}

// A DeviceAssignmentProto: the counts, then for each partition the devices of its replicas.
PJRT_Error* LoadedExecutable_GetDeviceAssignment(
    PJRT_LoadedExecutable_GetDeviceAssignment_Args* a) {
  const Program& program = *a->executable->program;
  const auto& devices = a->executable->assigned;
  std::string text;
  if (!devices.empty()) {
    append_varint(&text, 1 << 3);
    append_varint(&text, program.replicas);
    append_varint(&text, 2 << 3);
    append_varint(&text, program.partitions);
    for (int64_t p = 0; p < program.partitions; ++p) {
      std::string ids;
      for (int64_t r = 0; r < program.replicas; ++r)
        append_varint(&ids, devices[r * program.partitions + p]->id);
      std::string computation;
      append_varint(&computation, 1 << 3 | 2);
      append_varint(&computation, ids.size());
      computation += ids;
      append_varint(&text, 3 << 3 | 2);
      append_varint(&text, computation.size());
      text += computation;
    }
  }
  using Held = Given<PJRT_DeviceAssignmentSerialized>;
  a->serialized_device_assignment =
      Held::hold(std::move(text), &a->serialized_bytes, &a->serialized_bytes_size);
  a->serialized_device_assignment_deleter = Held::give_back;
  return nullptr;
}

HL_ANSWERS(LoadedExecutable_Fingerprint,
           tell(a->executable->program->fingerprint, &a->executable_fingerprint,
                &a->executable_fingerprint_size))

// -- executables

PJRT_Error* Executable_Destroy(PJRT_Executable_Destroy_Args* a) {
  delete a->executable;
  return nullptr;
}

HL_ANSWERS(Executable_Name,
           tell(a->executable->program->name, &a->executable_name, &a->executable_name_size))
HL_ANSWERS(Executable_NumReplicas, a->num_replicas = a->executable->program->replicas)
HL_ANSWERS(Executable_NumPartitions, a->num_partitions = a->executable->program->partitions)
HL_ANSWERS(Executable_NumOutputs, a->num_outputs = a->executable->program->results.size())
HL_ANSWERS(Executable_SizeOfGeneratedCodeInBytes,
           a->size_in_bytes = hl_program_code_bytes(a->executable->program->core.get()))
HL_ANSWERS(Executable_Fingerprint,
           tell(a->executable->program->fingerprint, &a->executable_fingerprint,
                &a->executable_fingerprint_size))

PJRT_Error* Executable_OutputElementTypes(PJRT_Executable_OutputElementTypes_Args* a) {
  std::lock_guard<std::mutex> guard(a->executable->mutex);
  auto& types = a->executable->types;
  if (types.empty())
    for (const Result& result : a->executable->program->results) types.push_back(result.type);
  a->output_types = types.data();
  a->num_output_types = types.size();
  return nullptr;
}

PJRT_Error* Executable_OutputDimensions(PJRT_Executable_OutputDimensions_Args* a) {
  std::lock_guard<std::mutex> guard(a->executable->mutex);
  PJRT_Executable& e = *a->executable;
  if (e.ranks.empty()) {
    for (const Result& result : e.program->results) {
      e.ranks.push_back(result.dims.size());
      e.dims.insert(e.dims.end(), result.dims.begin(), result.dims.end());
    }
  }
  a->num_outputs = e.ranks.size();
  a->dims = e.dims.data();
  a->dim_sizes = e.ranks.data();
  return nullptr;
}

template <typename Arrays>
static void fill_kinds(PJRT_Executable* e, int which, const Arrays& arrays) {
  if (!e->kinds[which].empty()) return;
  for (const Array& array : arrays) {
    e->kinds[which].push_back(kKinds[array.memory_kind]);
    e->kind_sizes[which].push_back(strlen(kKinds[array.memory_kind]));
  }
  e->kinds[which].push_back(nullptr);  // so that there is memory even for no arrays
}

PJRT_Error* Executable_ParameterMemoryKinds(PJRT_Executable_ParameterMemoryKinds_Args* a) {
  std::lock_guard<std::mutex> guard(a->executable->mutex);
  fill_kinds(a->executable, 0, a->executable->program->arguments);
  a->num_parameters = a->executable->program->arguments.size();
  a->memory_kinds = a->executable->kinds[0].data();
  a->memory_kind_sizes = a->executable->kind_sizes[0].data();
  return nullptr;
}

PJRT_Error* Executable_OutputMemoryKinds(PJRT_Executable_OutputMemoryKinds_Args* a) {
  std::lock_guard<std::mutex> guard(a->executable->mutex);
  fill_kinds(a->executable, 1, a->executable->program->results);
  a->num_outputs = a->executable->program->results.size();
  a->memory_kinds = a->executable->kinds[1].data();
  a->memory_kind_sizes = a->executable->kind_sizes[1].data();
  return nullptr;
}

PJRT_Error* Executable_GetCompiledMemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args* a) {
  const Program& program = *a->executable->program;
  a->generated_code_size_in_bytes = hl_program_code_bytes(program.core.get());
  a->argument_size_in_bytes = a->output_size_in_bytes = 0;
  for (const Array& array : program.arguments) a->argument_size_in_bytes += array.size;
  for (const Array& array : program.results) a->output_size_in_bytes += array.size;
  if (program.results.size() != 1)  // a tuple's table, as the built-in backend counts it
    a->output_size_in_bytes += static_cast<int64_t>(program.results.size() * sizeof(void*));
  a->alias_size_in_bytes = program.core->alias_bytes;
  a->temp_size_in_bytes = program.core->temporary_bytes;
  a->host_generated_code_size_in_bytes = a->host_argument_size_in_bytes = 0;
  a->host_output_size_in_bytes = a->host_alias_size_in_bytes = a->host_temp_size_in_bytes = 0;
  a->total_size_in_bytes = a->argument_size_in_bytes + a->output_size_in_bytes +
                           a->temp_size_in_bytes - a->alias_size_in_bytes;
  a->peak_memory_in_bytes = a->total_size_in_bytes;
  a->total_allocation_bytes = a->temp_size_in_bytes + a->output_size_in_bytes;
  a->indefinite_allocations = 0;
  a->peak_unpadded_heap_bytes = a->temp_size_in_bytes;
  return nullptr;
}

PJRT_Error* Executable_GetCostAnalysis(PJRT_Executable_GetCostAnalysis_Args* a) {
  std::lock_guard<std::mutex> guard(a->executable->mutex);
  PJRT_Executable& e = *a->executable;
  if (!e.has_costs) {
    hl_pjrt_reply reply;
    if (PJRT_Error* error = ask(e.program, HL_PJRT_ASK_COST, &reply)) return error;
    for (auto& [name, value] : reply.numbers) e.cost_names.push_back(name);
    for (size_t k = 0; k < e.cost_names.size(); ++k) {
      PJRT_NamedValue made{};
      made.struct_size = sizeof(made);
      made.name = e.cost_names[k].data();
      made.name_size = e.cost_names[k].size();
      made.type = PJRT_NamedValue_kFloat;
      made.float_value = static_cast<float>(reply.numbers[k].second);
      made.value_size = 1;
      e.costs.push_back(made);
    }
    e.has_costs = true;
  }
  a->properties = e.costs.data();
  a->num_properties = e.costs.size();
  return nullptr;
}

// Asked twice: for the size, then for the bytes.
PJRT_Error* Executable_OptimizedProgram(PJRT_Executable_OptimizedProgram_Args* a) {
  static const std::string format = "hlo_with_config";
  std::lock_guard<std::mutex> guard(a->executable->mutex);
  std::string& text = a->executable->text;
  if (text.empty()) {
    hl_pjrt_reply reply;
    if (PJRT_Error* error = ask(a->executable->program, HL_PJRT_ASK_PROGRAM, &reply)) return error;
    text = std::move(reply.bytes);
  }
  a->program->format = format.data();
  a->program->format_size = format.size();
  if (a->program->code == nullptr) {
    a->program->code_size = text.size();
  } else {
    if (a->program->code_size < text.size())
      return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                      "the program takes %zu bytes; there is room for %zu [optimized-program]",
                      text.size(), a->program->code_size);
    memcpy(a->program->code, text.data(), text.size());
  }
  return nullptr;
}

PJRT_Error* Executable_Serialize(PJRT_Executable_Serialize_Args* a) {
  hl_pjrt_reply reply;
  if (PJRT_Error* error = ask(a->executable->program, HL_PJRT_ASK_SAVED, &reply)) return error;
  using Held = Given<PJRT_SerializedExecutable>;
  a->serialized_executable =
      Held::hold(std::move(reply.bytes), &a->serialized_bytes, &a->serialized_bytes_size);
  a->serialized_executable_deleter = Held::give_back;
  return nullptr;
}

PJRT_Error* Executable_GetCompileOptions(PJRT_Executable_GetCompileOptions_Args* a) {
  hl_pjrt_reply reply;
  if (PJRT_Error* error = ask(a->executable->program, HL_PJRT_ASK_OPTIONS, &reply)) return error;
  using Held = Given<PJRT_SerializedCompileOptions>;
  a->serialized_compile_options =
      Held::hold(std::move(reply.bytes), &a->serialized_bytes, &a->serialized_bytes_size);
  a->serialized_compile_options_deleter = Held::give_back;
  return nullptr;
}

}  // namespace hloom::pjrt
