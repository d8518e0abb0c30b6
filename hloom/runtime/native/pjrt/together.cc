// Programs of several devices: each runs it on its own arrays, all at the same time.
#include <deque>

#include "../team.h"
#include "entries.h"
#include "joining.h"
#include "program.h"
#include "transfer.h"
#include "workers.h"

namespace hloom::pjrt {

namespace {

// `inputs[d * count + k]`: of device d of this process, argument or result k.
struct JointRun {
  Ref<Program> program;
  std::vector<PJRT_Device*> devices;  // of this process
  std::vector<int64_t> positions;     // which each is of the program's
  int64_t count;                      // of the program's, wherever
  std::unique_ptr<Span> span;         // null: all are here
  std::vector<Ref<Storage>> inputs, outputs;
  std::vector<hloom::UserData> user_data;
};

int run_on_each(JointRun* run, std::string* message) {
  Program* program = run->program.get();
  const Span* span = run->span.get();
  hloom::UserDataList data{static_cast<int64_t>(run->user_data.size()), run->user_data.data()};
  Meeting meeting(run->count, program->patience, span);
  std::deque<InProcess> own;
  size_t count = run->devices.size();
  for (int64_t position : run->positions)
    own.emplace_back(&meeting, &program->operations, position);
  if (span != nullptr) span->open(&meeting);
  size_t argument_count = program->arguments.size(), result_count = program->results.size();
  bool complete = run_team(static_cast<int>(count), [&](int d) {
    Run one{program, run->devices[d], run->inputs.data() + d * argument_count,
            run->outputs.data() + d * result_count, data};
    one.own = &own[d];
    std::string words;
    int code = execute(&one, &words);
    own[d].end(code, words);
  });
  for (size_t d = 0; d < count && !complete; ++d)
    own[d].end(HL_RESOURCE_EXHAUSTED, "no thread for it [threads]");
  meeting.say_ended();
  if (span != nullptr) span->close();
  *message = meeting.message();
  return meeting.status();
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
  if (code == 0) code = run_on_each(run, &message);
  else withdraw(run->span.get(), code, message);
  run->inputs.clear();
  run->outputs.clear();
  finish(done.get(), code, message);
}

// The same while the caller waits. Functions of the host do not see what the caller's thread has set
// (JAX's mesh, its default device, its types), as on the built-in backend, whose devices have
// threads of their own.
void finish_for_caller(JointRun* run, const Ref<PJRT_Event>& done) {
  bool is_apart = run->program->calls_host && run->devices.size() > 1;
  bool ran = is_apart && run_team(2, [&](int k) {
               if (k == 1) finish_joint(run, done);
             });
  if (!ran) finish_joint(run, done);
}

// Results of all devices, pending until `done`.
void make_results(JointRun* run, const Ref<PJRT_Event>& done, PJRT_Buffer** const* lists) {
  size_t count = run->program->results.size();
  for (size_t d = 0; d < run->devices.size(); ++d) {
    for (size_t k = 0; k < count; ++k) {
      const Result& result = run->program->results[k];
      Ref<Storage> storage(new Storage);
      storage->size = result.size;
      storage->ready = done;
      lists[d][k] = new PJRT_Buffer(run->devices[d]->listed[result.memory_kind], result.type,
                                    result.dims.data(), result.layout, storage);
      run->outputs.push_back(std::move(storage));
    }
  }
}

}  // namespace

// The devices of a run, of which there must be those that the program is for.
static PJRT_Error* gather_devices(PJRT_LoadedExecutable_Execute_Args* a, JointRun* run) {
  PJRT_LoadedExecutable& executable = *a->executable;
  int64_t wanted = run->program->partitions * run->program->replicas;
  run->devices = executable.devices;
  run->positions = executable.positions;
  run->count = static_cast<int64_t>(executable.assigned.size());
  if (wanted == 1 && (a->execute_device != nullptr || executable.assigned.empty())) {
    PJRT_Device* anywhere = executable.client->addressable[0];
    run->devices = {a->execute_device != nullptr ? a->execute_device : anywhere};
    run->positions = {0};
    run->count = 1;
  }
  if (run->count == wanted) return nullptr;
  return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                  "%s is for %lld devices, and is loaded for %lld [device-count]",
                  run->program->name.c_str(), static_cast<long long>(wanted),
                  static_cast<long long>(run->count));
}

// Takes the arguments of all devices, or none. Whether they are there: `are_ready`.
static PJRT_Error* take_inputs(PJRT_LoadedExecutable_Execute_Args* a, JointRun* run,
                               std::deque<Inputs>* inputs, bool* are_ready) {
  for (size_t d = 0; d < run->devices.size(); ++d) {
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
  auto run = std::make_shared<JointRun>();
  run->program = executable.program;
  if (PJRT_Error* error = gather_devices(a, run.get())) return error;
  if (executable.is_spread()) run->span = next_run(executable);
  std::deque<Inputs> inputs;
  bool are_ready = true;
  if (PJRT_Error* error = take_inputs(a, run.get(), &inputs, &are_ready)) {
    auto* failure = static_cast<Failure*>(error);
    withdraw(run->span.get(), failure->code, failure->message);
    return error;
  }
  auto& devices = run->devices;
  if (devices.empty()) return nullptr;
  RunsOn where = runs_on(*run->program, devices[0], are_ready);
  // Runs of several processes begin in the order in which all of them have called.
  bool is_apart = run->span != nullptr && !run->program->calls_host;
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
