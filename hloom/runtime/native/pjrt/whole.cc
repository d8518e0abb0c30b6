// Programs of several devices. Where a program is what one device runs, each runs it on its own arrays.
//
// Any other is run once, on whole arrays: devices are one machine, so shards are joined, the whole is
// computed with all threads, and results are cut again. Devices that have the same part of a result
// share its memory.
#include <string.h>

#include <deque>

#include "../team.h"
#include "entries.h"
#include "joining.h"
#include "program.h"
#include "transfer.h"
#include "workers.h"

namespace hloom::pjrt {

size_t first_with(const Array& array, size_t device) {
  if (!array.is_cut()) return 0;
  size_t bytes = array.dims.size() * sizeof(int64_t);
  for (size_t other = 0; other < device; ++other)
    if (memcmp(array.begin(other), array.begin(device), bytes) == 0) return other;
  return device;
}

// Between elements that are not packed.
static void copy_elements(const Array& array, size_t device, char* whole, char* shard,
                          bool into_whole) {
  int64_t rank = static_cast<int64_t>(array.dims.size()), item = element_bytes(array.type);
  std::vector<int64_t> of_whole = strides_of(array.layout, array.whole.data(), item);
  std::vector<int64_t> of_shard = strides_of(array.layout, array.dims.data(), item);
  for (int64_t d = 0; d < rank; ++d) whole += array.begin(device)[d] * of_whole[d];
  if (array.size == 0) return;
  if (into_whole)
    copy_strided(whole, of_whole.data(), shard, of_shard.data(), array.dims.data(), rank, item);
  else copy_strided(shard, of_shard.data(), whole, of_whole.data(), array.dims.data(), rank, item);
}

void copy_shard(const Array& array, size_t device, char* whole, char* shard, bool into_whole) {
  int64_t rank = static_cast<int64_t>(array.dims.size());
  // Neighbours in a byte may be of other shards, whose elements stay: one shard after the other.
  static std::mutex mutex;
  std::unique_lock<std::mutex> guard(mutex, std::defer_lock);
  if (into_whole && packed_bits(array.type) != 0) guard.lock();
  Unpacked all(array.type, array.whole.data(), rank, whole);
  Unpacked part(array.type, array.dims.data(), rank, shard, into_whole);
  copy_elements(array, device, all.data, part.data, into_whole);
  if (into_whole) all.put_back();
  else part.put_back();
}

namespace {

// `inputs[d * count + k]`: of device d, argument or result k.
struct JointRun {
  Ref<Program> program;
  Together together;
  std::vector<Ref<Storage>> inputs, outputs;
  std::vector<hloom::UserData> user_data;
};

// The whole storage of argument k. Null: there is no memory.
Ref<Storage> joined(JointRun* run, size_t k) {
  const Array& array = run->program->arguments[k];
  size_t count = run->program->arguments.size();
  if (!array.is_cut()) return std::move(run->inputs[k]);
  Ref<Storage> whole = new_storage(array.whole_size);
  for (size_t d = 0; d < run->together.devices.size() && whole; ++d)
    if (first_with(array, d) == d)
      copy_shard(array, d, static_cast<char*>(whole->data),
                 static_cast<char*>(run->inputs[d * count + k]->data), true);
  return whole;
}

// Gives devices their parts of a whole result. False: there is no memory.
bool cut(JointRun* run, size_t k, Storage* whole) {
  const Result& array = run->program->results[k];
  size_t count = run->program->results.size();
  for (size_t d = 0; d < run->together.devices.size(); ++d) {
    if (first_with(array, d) != d) continue;
    Storage* storage = run->outputs[d * count + k].get();
    storage->base = hl_arena_alloc(nullptr, array.size);
    if (storage->base == nullptr) return false;
    storage->data = storage->base;
    storage->owner = Owner::kArena;
    copy_shard(array, d, static_cast<char*>(whole->data), static_cast<char*>(storage->data), false);
  }
  return true;
}

int run_whole(JointRun* run, std::string* message) {
  Program& program = *run->program;
  std::vector<Ref<Storage>> inputs, outputs;
  for (size_t k = 0; k < program.arguments.size(); ++k) {
    inputs.push_back(joined(run, k));
    if (inputs.back()) continue;
    *message = "no memory for the arguments of " + program.name + " [out-of-memory]";
    return PJRT_Error_Code_RESOURCE_EXHAUSTED;
  }
  // Shards that were donated are gone before the program asks for memory.
  run->inputs.clear();
  for (size_t k = 0; k < program.results.size(); ++k) {
    const Result& result = program.results[k];
    outputs.push_back(result.is_cut() ? Ref<Storage>(new Storage) : run->outputs[k]);
    if (result.is_cut()) outputs[k]->size = result.whole_size;
  }
  hloom::UserDataList data{static_cast<int64_t>(run->user_data.size()), run->user_data.data()};
  Run one{&program, run->together.devices[0], inputs.data(), outputs.data(), data};
  int code = execute(&one, message);
  for (size_t k = 0; k < program.results.size() && code == 0; ++k) {
    if (program.results[k].is_cut() && !cut(run, k, outputs[k].get())) {
      code = PJRT_Error_Code_RESOURCE_EXHAUSTED;
      *message = "no memory for the results of " + program.name + " [out-of-memory]";
    }
    outputs[k].reset();
  }
  return code;
}

int run_on_each(JointRun* run, std::string* message) {
  hloom::UserDataList data{static_cast<int64_t>(run->user_data.size()), run->user_data.data()};
  return run_each(run->program.get(), run->together, run->inputs.data(), run->outputs.data(), data,
                  message);
}

// A run that does not begin here will not go on elsewhere.
void withdraw(const hloom::Span* span, int code, const std::string& message) {
  if (span == nullptr) return;
  span->failed(code, message, true);
  span->close();
}

void finish_joint(JointRun* run, const Ref<PJRT_Event>& done) {
  std::string message;
  int code = wait_for(run->inputs.data(), run->inputs.size(), &message);
  if (code == 0)
    code = run->program->is_together ? run_on_each(run, &message) : run_whole(run, &message);
  else withdraw(run->together.span.get(), code, message);
  run->inputs.clear();
  run->outputs.clear();
  finish(done.get(), code, message);
}

// The same while the caller waits. Functions of the host do not see what the caller's thread has set
// (JAX's mesh, its default device, its types), as on the built-in backend, whose devices have
// threads of their own.
void finish_for_caller(JointRun* run, const Ref<PJRT_Event>& done) {
  bool is_apart = run->program->calls_host && run->together.devices.size() > 1;
  bool ran = is_apart && run_team(2, [&](int k) {
               if (k == 1) finish_joint(run, done);
             });
  if (!ran) finish_joint(run, done);
}

// Results of all devices, pending until `done`. Those that are the same share their storage.
void make_results(JointRun* run, const Ref<PJRT_Event>& done, PJRT_Buffer** const* lists) {
  size_t count = run->program->results.size();
  for (size_t d = 0; d < run->together.devices.size(); ++d) {
    for (size_t k = 0; k < count; ++k) {
      const Result& result = run->program->results[k];
      size_t first = run->program->is_together ? d : first_with(result, d);
      Ref<Storage> storage =
          first == d ? Ref<Storage>(new Storage) : run->outputs[first * count + k];
      if (first == d) {
        storage->size = result.size;
        storage->ready = done;
      }
      lists[d][k] = new PJRT_Buffer(run->together.devices[d]->listed[result.memory_kind],
                                    result.type, result.dims.data(), result.layout, storage);
      run->outputs.push_back(std::move(storage));
    }
  }
}

}  // namespace

// The devices of a run, of which there must be `wanted`.
static PJRT_Error* gather_devices(PJRT_LoadedExecutable_Execute_Args* a, int64_t wanted,
                                  Together* together) {
  PJRT_LoadedExecutable& executable = *a->executable;
  together->devices = executable.devices;
  together->positions = executable.positions;
  together->count = static_cast<int64_t>(executable.assigned.size());
  if (wanted == 1 && (a->execute_device != nullptr || executable.assigned.empty())) {
    PJRT_Device* anywhere = executable.client->addressable[0];
    together->devices = {a->execute_device != nullptr ? a->execute_device : anywhere};
    together->positions = {0};
    together->count = 1;
  }
  if (together->count == wanted) return nullptr;
  return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                  "%s is for %lld devices, and is loaded for %lld [device-count]",
                  executable.program->name.c_str(), static_cast<long long>(wanted),
                  static_cast<long long>(together->count));
}

// Takes the arguments of all devices, or none. Whether they are there: `are_ready`.
static PJRT_Error* take_inputs(PJRT_LoadedExecutable_Execute_Args* a, JointRun* run,
                               std::deque<Inputs>* inputs, bool* are_ready) {
  for (size_t d = 0; d < run->together.devices.size(); ++d) {
    Inputs& taken = inputs->emplace_back(*run->program, a->argument_lists[d]);
    if (PJRT_Error* error = taken.take(a->options)) return error;
  }
  *are_ready = true;
  for (Inputs& taken : *inputs)
    for (size_t k = 0; k < taken.size(); ++k) *are_ready &= taken.storages()[k]->is_ready();
  return nullptr;
}

PJRT_Error* launch_together(PJRT_LoadedExecutable_Execute_Args* a) {
  stay_at_the_end();
  PJRT_LoadedExecutable& executable = *a->executable;
  size_t count = executable.program->arguments.size();
  int64_t wanted = executable.program->partitions;
  if (executable.program->is_together) wanted *= executable.program->replicas;
  auto run = std::make_shared<JointRun>();
  run->program = executable.program;
  if (PJRT_Error* error = gather_devices(a, wanted, &run->together)) return error;
  if (executable.is_spread()) run->together.span = next_run(executable);
  std::deque<Inputs> inputs;
  bool are_ready = true;
  if (PJRT_Error* error = take_inputs(a, run.get(), &inputs, &are_ready)) {
    auto* failure = static_cast<Failure*>(error);
    withdraw(run->together.span.get(), failure->code, failure->message);
    return error;
  }
  auto& devices = run->together.devices;
  if (devices.empty()) return nullptr;
  RunsOn where = runs_on(*run->program, devices[0], are_ready);
  // Runs of several processes begin in the order in which all of them have called.
  bool is_apart = run->together.span != nullptr && !run->program->calls_host;
  if (is_apart && devices[0]->client->asynchronous && !in_queue()) where = RunsOn::kProgram;
  for (Inputs& taken : inputs) {
    if (where != RunsOn::kCaller) copy_small_inputs(taken.storages(), count);
    for (size_t k = 0; k < count; ++k) run->inputs.push_back(std::move(taken.storages()[k]));
    taken.commit();
  }
  if (a->options->context != nullptr)
    for (const PJRT_FFI_UserData& each : a->options->context->data)
      run->user_data.push_back({each.type_id, each.data});
  Ref<PJRT_Event> done(new PJRT_Event);
  make_results(run.get(), done, a->output_lists);
  for (size_t d = 0; d < devices.size() && a->device_complete_events != nullptr; ++d)
    a->device_complete_events[d] = Ref(done).passed_on();
  if (where == RunsOn::kCaller) {
    finish_for_caller(run.get(), done);
    return nullptr;
  }
  push(devices[0]->programs, [run, done] { finish_joint(run.get(), done); });
  return nullptr;
}

}  // namespace hloom::pjrt
