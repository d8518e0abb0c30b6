// Running programs: here and now, or in the thread of their device.
//
// Short programs whose arguments are there run in the caller's thread: handing one over costs more
// than it takes. How long it takes is what earlier runs took, or
// a guess of the compiler's.
#include <string.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <utility>

#include "../guard.h"
#include "entries.h"
#include "profiler.h"
#include "program.h"
#include "workers.h"

HL_API int32_t hl_execute(hl_context* context, hl_main_function fn, void** buffers);
HL_API const char* hl_context_message(hl_context* context);

namespace hloom::pjrt {
namespace {

constexpr int64_t kWorthAThreadNs = 100'000;
constexpr size_t kFewAllocations = 256;
constexpr size_t kFewValues = 512;
// A copy of this takes less than a run that is worth a thread.
constexpr int64_t kMostToCopy = 1 << 18;

// The argument in memory of its own. False: there is none.
bool copy_input(Value** input) {
  Value* value = *input;
  Value* copy = new_value(value->size);
  if (copy == nullptr) return false;
  if (value->size > 0) memcpy(copy->data, value->data, value->size);
  release(value);
  *input = copy;
  return true;
}

// The argument's memory, which the program writes: its own if nobody else holds it, else a copy.
bool make_writable(Value** input) {
  Value* value = *input;
  if (value->owner == Owner::kArena && value->references.load(std::memory_order_acquire) == 1)
    return true;
  return copy_input(input);
}

// Under HLOOM_GUARD what is only read stands between protected pages, too, and may not be written.
bool make_read_only(Value** input) {
  if (!copy_input(input)) return false;
  hl_guard_read_only((*input)->base, 1);
  return true;
}

void name_blocks(const Program& program, void* const* table) {
  for (size_t k = 0; k < program.fixed.size(); ++k) {
    std::string name = k < program.block_names.size() ? program.block_names[k] : program.name;
    hl_guard_name(table[k], name.c_str());
  }
}

int out_of_memory(const Program& program, std::string* message) {
  *message = "no memory for a run of " + program.name + " [out-of-memory]";
  return PJRT_Error_Code_RESOURCE_EXHAUSTED;
}

// Addresses by allocation: constants, arguments, fresh blocks.
bool fill_table(Run* run, void** table, size_t* blocks_made) {
  Program& program = *run->program;
  memcpy(table, program.fixed.data(), program.fixed.size() * sizeof(void*));
  for (size_t k = 0; k < program.arguments.size(); ++k) {
    const Array& array = program.arguments[k];
    if (array.allocation < 0) continue;
    if ((array.flags & HL_PJRT_WRITTEN) && !make_writable(run->inputs + k)) return false;
    if (hloom::guarding && !(array.flags & HL_PJRT_WRITTEN) && !make_read_only(run->inputs + k))
      return false;
    table[array.allocation] = run->inputs[k]->data;
  }
  for (const hl_pjrt_block& block : program.blocks) {
    void* memory = hl_arena_alloc(nullptr, block.size_bytes);
    if (memory == nullptr) return false;
    table[block.allocation] = memory;
    ++*blocks_made;
  }
  return true;
}

// Gives results their memory: copies first, which may fail, then blocks, which are not freed now.
bool hand_out(Run* run, void** table) {
  Program& program = *run->program;
  for (size_t k = 0; k < program.results.size(); ++k) {
    const Result& result = program.results[k];
    Value* value = run->outputs[k];
    if (result.source != Source::kCopy) continue;
    value->base = hl_arena_alloc(nullptr, value->size);
    if (value->base == nullptr) return false;
    char* data = static_cast<char*>(table[result.allocation]) + result.offset;
    if (value->size > 0) memcpy(value->base, data, value->size);
    value->data = value->base;
    value->owner = Owner::kArena;
  }
  for (size_t k = 0; k < program.results.size(); ++k) {
    const Result& result = program.results[k];
    if (result.source != Source::kBlock && result.source != Source::kWritten) continue;
    Value* value = run->outputs[k];
    value->data = static_cast<char*>(table[result.allocation]) + result.offset;
    value->base = table[result.allocation];
    value->owner = Owner::kArena;
    if (result.source == Source::kWritten) {
      Value* input = run->inputs[result.argument];
      value->base = input->base;
      input->owner = Owner::kNobody;
    }
  }
  return true;
}

void free_blocks(Run* run, void** table, size_t count, bool with_results) {
  for (size_t k = 0; k < count; ++k) {
    const hl_pjrt_block& block = run->program->blocks[k];
    if (block.is_temporary || with_results) hl_arena_free(nullptr, table[block.allocation]);
  }
}

}  // namespace

int execute(Run* run, std::string* message) {
  Program& program = *run->program;
  std::vector<void*> many;
  void* few[kFewAllocations];
  void** table = few;
  if (program.fixed.size() > kFewAllocations) {
    many.resize(program.fixed.size());
    table = many.data();
  }
  int code = 0;
  size_t blocks_made = 0;
  hl_context* context = context_for(&program);
  if (context == nullptr || !fill_table(run, table, &blocks_made)) {
    code = out_of_memory(program, message);
  } else {
    context->device = run->meeting != nullptr ? run->ordinal : run->device->description->id;
    context->user = run;
    hloom::of(context)->user_data = &run->user_data;
    RunSpan span(*run, context);
    if (hloom::guarding) name_blocks(program, table);
    int64_t begin = hloom::now_ns();
    code = hl_execute(context, program.entry, table);
    int64_t took = hloom::now_ns() - begin, before = program.run_ns.load(std::memory_order_relaxed);
    program.run_ns.store(before < 0 ? took : (3 * before + took) / 4, std::memory_order_relaxed);
    if (hloom::guarding) hl_guard_check(table, static_cast<int64_t>(program.fixed.size()));
    if (code != 0) *message = hl_context_message(context);
  }
  bool whole = code == 0 && hand_out(run, table);
  if (code == 0 && !whole) code = out_of_memory(program, message);
  free_blocks(run, table, blocks_made, !whole && code != 0);
  if (context != nullptr) put_back(&program, context);
  for (size_t k = 0; k < program.arguments.size(); ++k) release(run->inputs[k]);
  return code;
}

int wait_for(Value* const* values, size_t count, std::string* message) {
  int code = 0;
  for (size_t k = 0; k < count; ++k) {
    PJRT_Event* ready = values[k]->ready;
    wait(ready);
    if (code == 0 && ready->state.load(std::memory_order_acquire) == PJRT_Event::kFailed) {
      code = ready->code;
      *message = ready->message;
    }
  }
  return code;
}

namespace {

// In the thread of a queue: waits for the arguments first. An argument that failed fails the run.
void execute_later(Run* run, PJRT_Event* done) {
  std::string message;
  size_t count = run->program->arguments.size();
  int code = wait_for(run->inputs, count, &message);
  if (code == 0) code = execute(run, &message);
  else
    for (size_t k = 0; k < count; ++k) release(run->inputs[k]);
  for (size_t k = 0; k < run->program->results.size(); ++k) release(run->outputs[k]);
  finish(done, code, message);  // from here on only buffers hold the results
  release(done);
  release(run->program);
  delete run;
}

bool is_donatable(const PJRT_ExecuteOptions* options, size_t argument) {
  for (size_t k = 0; k < options->num_non_donatable_input_indices; ++k)
    if (options->non_donatable_input_indices[k] == static_cast<int64_t>(argument)) return false;
  return true;
}

// Somebody looks at its memory, for as long as they like: it stays as it is, and is not given away.
bool is_viewed(PJRT_Buffer* buffer) {
  std::lock_guard<Spin> guard(buffer->lock);
  return buffer->external_count > 0;
}

PJRT_Error* unusable(PJRT_Buffer* const* arguments, size_t k, const Program& program,
                     bool donated) {
  for (size_t other = 0; other < k; ++other)
    if (arguments[other] == arguments[k])
      return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                      "Attempt to %s Execute() (%s: argument %zu is the buffer that argument "
                      "%zu donates) [donation]",
                      donated ? "donate the same buffer twice in"
                              : "use a buffer that was previously donated in the same call to",
                      program.name.c_str(), k, other);
  return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                  "Invalid buffer passed to Execute() as argument %zu of %s: Buffer has been "
                  "deleted or donated [deleted-buffer]",
                  k, program.name.c_str());
}

// What a run that fails to begin had taken: the buffer has its value again. False: it has one.
bool give_back(PJRT_Buffer* buffer, Value* value) {
  std::lock_guard<Spin> guard(buffer->lock);
  if (buffer->value != nullptr) return false;
  buffer->value = value;
  return true;
}

// Arguments in the layouts that the program reads; on an error they are as they were.
PJRT_Error* lay_out(const Program& program, PJRT_Buffer* const* arguments, Value** inputs) {
  size_t count = program.arguments.size();
  std::vector<std::pair<size_t, Value*>> made;
  for (size_t k = 0; k < count; ++k) {
    const Array& array = program.arguments[k];
    const PJRT_Buffer& given = *arguments[k];
    if (given.layout->bare == array.layout->bare ||
        given.rank != static_cast<int64_t>(array.dims.size()))
      continue;
    Value* turned = relaid(retained(inputs[k]), element_bytes(array.type), given.dims, given.layout,
                           array.layout);
    if (turned != nullptr) {
      made.emplace_back(k, turned);
      continue;
    }
    for (auto& [at, value] : made) release(value);
    return failuref(PJRT_Error_Code_RESOURCE_EXHAUSTED,
                    "no memory for argument %zu of %s in the layout it is read in [out-of-memory]",
                    k, program.name.c_str());
  }
  for (auto& [at, value] : made) {
    release(inputs[at]);
    inputs[at] = value;
  }
  return nullptr;
}

}  // namespace

void give_back_inputs(const Program& program, PJRT_Buffer* const* arguments, Value** inputs,
                      size_t count) {
  for (size_t k = 0; k < count; ++k) {
    if (inputs[k] == nullptr) continue;
    bool may_be_taken = program.arguments[k].flags & HL_PJRT_DONATED;
    if (!may_be_taken || !give_back(arguments[k], inputs[k])) release(inputs[k]);
    inputs[k] = nullptr;
  }
}

PJRT_Error* take_inputs(const Program& program, const PJRT_ExecuteOptions* options,
                        PJRT_Buffer* const* arguments, Value** inputs) {
  size_t count = program.arguments.size();
  PJRT_Error* error = nullptr;
  size_t k = 0;
  for (; k < count && error == nullptr; ++k) {
    const Array& array = program.arguments[k];
    bool donated =
        (array.flags & HL_PJRT_DONATED) && is_donatable(options, k) && !is_viewed(arguments[k]);
    inputs[k] = donated ? taken_value(arguments[k]) : held_value(arguments[k]);
    if (inputs[k] == nullptr) {
      error = unusable(arguments, k, program, donated);
    } else if (donated && inputs[k]->references.load(std::memory_order_acquire) > 1 &&
               std::find(arguments, arguments + k, arguments[k]) != arguments + k) {
      error =
          failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                   "Attempt to donate a buffer which is also used by the same call to Execute() "
                   "(%s: argument %zu is given before, too) [donation]",
                   program.name.c_str(), k);
    } else if (inputs[k]->size < array.size) {
      error = failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                       "Executable(%s) expected parameter %zu of size %lld but got buffer with "
                       "incompatible size %lld [argument-size]",
                       program.name.c_str(), k, static_cast<long long>(array.size),
                       static_cast<long long>(inputs[k]->size));
    }
  }
  if (error == nullptr) error = lay_out(program, arguments, inputs);
  if (error != nullptr) give_back_inputs(program, arguments, inputs, k);
  return error;
}

void own_small(Value** inputs, size_t count) {
  for (size_t k = 0; k < count; ++k) {
    Value* value = inputs[k];
    if (value == nullptr || value->owner != Owner::kHost || value->size > kMostToCopy) continue;
    Value* copy = new_value(value->size);
    if (copy == nullptr) continue;
    memcpy(copy->data, value->data, value->size);
    release(value);
    inputs[k] = copy;
  }
}

PJRT_Error* fits_memory(const Program& program) {
  if (program.run_ns.load(std::memory_order_relaxed) >= 0) return nullptr;
  struct sysinfo machine;
  if (sysinfo(&machine) != 0) return nullptr;
  uint64_t there = (machine.totalram + machine.totalswap) * machine.mem_unit;
  for (const hl_pjrt_block& block : program.blocks)
    if (static_cast<uint64_t>(block.size_bytes) > there)
      return failuref(PJRT_Error_Code_RESOURCE_EXHAUSTED,
                      "Out of memory allocating %lld bytes for a run of %s [out-of-memory]",
                      static_cast<long long>(block.size_bytes), program.name.c_str());
  return nullptr;
}

Place place_of(const Program& program, const PJRT_Device* device, bool are_ready) {
  // Who calls such a program may count on its calls of the host when it returns: nothing else tells
  // when they are done, if there are no results.
  if (program.calls_host) return Place::kHere;
  if (in_queue() || !device->client->asynchronous) return Place::kHere;
  int64_t took = program.run_ns.load(std::memory_order_relaxed);
  if (took < 0) took = program.expected_ns;
  return are_ready && took >= 0 && took < kWorthAThreadNs ? Place::kHere : Place::kPrograms;
}

namespace {

// One run on one device. `values` has the inputs, which are taken over, and room for the outputs.
// `done` is held for the caller.
PJRT_Error* launch(Program* program, PJRT_Device* device, const PJRT_ExecuteOptions* options,
                   Value** values, PJRT_Buffer** results, PJRT_Event** done) {
  size_t argument_count = program->arguments.size(), result_count = program->results.size();
  Run run{program, device, values, values + argument_count, {}, {}, {}};
  if (options->context != nullptr) {
    static_assert(sizeof(hloom::UserData) == sizeof(PJRT_FFI_UserData));
    auto& data = options->context->data;
    run.user_data = {static_cast<int64_t>(data.size()),
                     reinterpret_cast<const hloom::UserData*>(data.data())};
  }
  bool are_ready = true;
  for (size_t k = 0; k < argument_count; ++k)
    if (run.inputs[k]->ready->state.load(std::memory_order_acquire) != PJRT_Event::kDone)
      are_ready = false;
  for (size_t k = 0; k < result_count; ++k) {
    const Result& result = program->results[k];
    run.outputs[k] = new Value;
    run.outputs[k]->size = result.size;
    results[k] = new PJRT_Buffer(device->listed[result.memory_kind], result.type,
                                 result.dims.data(), result.layout, run.outputs[k]);
  }
  Place place = place_of(*program, device, are_ready);
  if (place != Place::kHere) own_small(values, argument_count);
  if (place == Place::kHere && are_ready) {
    std::string message;
    int code = execute(&run, &message);
    if (code == 0) {
      *done = done_event();
      return nullptr;
    }
    for (size_t k = 0; k < result_count; ++k) delete std::exchange(results[k], nullptr);
    return failure(code, message);
  }
  auto* later = new Run(run);
  later->own.assign(values, values + argument_count + result_count);
  later->inputs = later->own.data();
  later->outputs = later->own.data() + argument_count;
  later->own_user_data.assign(run.user_data.entries, run.user_data.entries + run.user_data.count);
  later->user_data.entries = later->own_user_data.data();
  auto* event = new PJRT_Event;
  for (size_t k = 0; k < result_count; ++k) {
    retained(run.outputs[k]);
    run.outputs[k]->ready = retained(event);
  }
  retained(program);
  *done = retained(event);
  if (place == Place::kHere) execute_later(later, event);
  else push(device->programs, [later, event] { execute_later(later, event); });
  return nullptr;
}

PJRT_Device* device_of(const PJRT_LoadedExecutable_Execute_Args& a, size_t d) {
  if (a.execute_device != nullptr) return a.execute_device;
  const PJRT_LoadedExecutable& executable = *a.executable;
  return executable.devices.empty() ? executable.client->listed[0] : executable.devices[d];
}

// A run on each device. No device begins before the arguments of all are there, so one that cannot be
// used costs the others nothing; what fails later leaves nothing of those that had begun.
PJRT_Error* launch_all(PJRT_LoadedExecutable_Execute_Args* a, size_t devices) {
  Program* program = a->executable->program;
  size_t inputs = program->arguments.size(), step = inputs + program->results.size() + 1;
  std::vector<Value*> many;
  Value* few[kFewValues];
  Value** values = few;
  if (step * devices > kFewValues) {
    many.resize(step * devices);
    values = many.data();
  }
  PJRT_Error* error = nullptr;
  for (size_t d = 0; d < devices; ++d) {
    error = take_inputs(*program, a->options, a->argument_lists[d], values + d * step);
    for (size_t k = 0; error != nullptr && k < d; ++k)
      give_back_inputs(*program, a->argument_lists[k], values + k * step, inputs);
    if (error != nullptr) return error;
  }
  for (size_t d = 0; d < devices; ++d) {
    PJRT_Event* done = nullptr;
    error =
        launch(program, device_of(*a, d), a->options, values + d * step, a->output_lists[d], &done);
    if (error == nullptr) {
      if (a->device_complete_events != nullptr) a->device_complete_events[d] = done;
      else release(done);
      continue;
    }
    for (size_t k = d + 1; k < devices; ++k)
      give_back_inputs(*program, a->argument_lists[k], values + k * step, inputs);
    for (size_t k = 0; k < d; ++k) {
      for (size_t r = 0; r < program->results.size(); ++r)
        delete std::exchange(a->output_lists[k][r], nullptr);
      if (a->device_complete_events != nullptr)
        release(std::exchange(a->device_complete_events[k], nullptr));
    }
    return error;
  }
  return nullptr;
}

}  // namespace

PJRT_Error* LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args* a) {
  PJRT_LoadedExecutable& executable = *a->executable;
  Program* program = executable.program;
  if (executable.is_deleted)
    return failuref(PJRT_Error_Code_FAILED_PRECONDITION, "%s has been deleted [deleted-executable]",
                    program->name.c_str());
  if (a->num_args != program->arguments.size())
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                    "%s takes %zu arguments, %zu were given [argument-count]",
                    program->name.c_str(), program->arguments.size(), a->num_args);
  bool anywhere = executable.devices.empty();
  size_t wanted = anywhere ? 1 : executable.devices.size();
  if (a->execute_device != nullptr) wanted = 1;
  if (a->num_devices != wanted)
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                    "%s runs on %zu devices, arguments for %zu were given [device-count]",
                    program->name.c_str(), wanted, a->num_devices);
  if (PJRT_Error* error = fits_memory(*program)) return error;
  if (program->is_whole()) return launch_whole(a);
  return launch_all(a, wanted);
}

}  // namespace hloom::pjrt
