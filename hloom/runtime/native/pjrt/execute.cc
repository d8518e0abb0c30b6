// Running programs: here and now, or in the thread of their device.
//
// Short programs whose arguments are there run in the caller's thread: handing one over costs more
// than it takes. How long it takes is what earlier runs took, or
// a guess of the compiler's.
#include <string.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "../execution.h"
#include "entries.h"
#include "host_callbacks.h"
#include "profiler.h"
#include "program.h"
#include "workers.h"

namespace hloom::pjrt {
namespace {

constexpr int64_t kWorthAThreadNs = 100'000;
// A copy of this takes less than a run that is worth a thread.
constexpr int64_t kMostToCopy = 1 << 18;

// A run in this thread; its arguments are there.
class HereRun {
 public:
  explicit HereRun(const Run& run)
      : run_(run),
        program_(*run.program),
        arguments_(program_.core->arguments.size()),
        results_(program_.core->results.size()),
        execution_(*program_.core, arguments_.data(), results_.data()) {}

  // Finds memory for it. On an error nothing has been changed.
  int place(std::string* message) {
    for (size_t k = 0; k < program_.arguments.size(); ++k) {
      const Array& array = program_.arguments[k];
      if (array.leaf < 0) continue;
      Storage* storage = run_.inputs[k].get();
      hl_argument& argument = arguments_[array.leaf];
      argument.data = storage->data;
      // The program may have it if nobody else holds it.
      if (program_.core->arguments[array.leaf].is_written && storage->owner == Owner::kArena &&
          storage->references.load(std::memory_order_acquire) == 1)
        argument.block = storage->base;
    }
    context_ = hl_program_context(program_.core.get());
    if (context_ == nullptr)
      problem_ = {PJRT_Error_Code_RESOURCE_EXHAUSTED, "out-of-memory", "no memory for a run",
                  nullptr};
    else execution_.place(&problem_);
    return told(message);
  }

  // Runs it, and gives the outputs their memory.
  int finish(std::string* message) {
    context_->device = run_.own != nullptr ? run_.own->device() : run_.device->description->id;
    if (run_.own != nullptr) run_.own->begin(context_);
    context_->user = const_cast<Run*>(&run_);
    hloom::of(context_)->user_data = &run_.user_data;
    if (run_.transfers != nullptr) hloom::of(context_)->transfers = run_.transfers;
    {
      RunSpan span(run_, context_);
      int64_t begin = now_ns();
      int code = execution_.run(context_);
      remember(now_ns() - begin);
      if (code != 0) *message = hl_context_message(context_);
      if (run_.own != nullptr) run_.own->end(code, *message);
      if (code != 0) return code;
    }
    if (execution_.hand_out(&problem_) != 0) return told(message);
    for (size_t k = 0; k < results_.size(); ++k) {
      if (results_[k].block == nullptr) continue;
      Storage* storage = run_.outputs[k].get();
      storage->data = results_[k].data;
      storage->base = results_[k].block;
      storage->owner = Owner::kArena;
    }
    let_go();
    return 0;
  }

  ~HereRun() {
    if (context_ != nullptr) hl_program_put_back(program_.core.get(), context_);
  }
  HereRun(const HereRun&) = delete;
  HereRun& operator=(const HereRun&) = delete;

 private:
  // Memory that results have is no argument's any more.
  void let_go() {
    for (size_t k = 0; k < program_.arguments.size(); ++k) {
      int64_t leaf = program_.arguments[k].leaf;
      if (leaf < 0 || !program_.core->arguments[leaf].is_written) continue;
      Storage* storage = run_.inputs[k].get();
      for (hl_result& result : results_)
        if (result.block != nullptr && result.block == storage->base)
          storage->owner = Owner::kNobody;
    }
  }

  int told(std::string* message) const {
    if (problem_.status != 0) *message = problem_.text + " [" + problem_.rule + "]";
    return problem_.status;
  }

  void remember(int64_t took) {
    int64_t before = program_.run_ns.load(std::memory_order_relaxed);
    program_.run_ns.store(before < 0 ? took : (3 * before + took) / 4, std::memory_order_relaxed);
  }

  const Run& run_;
  Program& program_;
  SmallArray<hl_argument> arguments_;
  SmallArray<hl_result> results_;
  Execution execution_;
  hl_context* context_ = nullptr;
  Problem problem_;
};

void let_go_of_inputs(Run* run) {
  for (size_t k = 0; k < run->program->arguments.size(); ++k) run->inputs[k].reset();
}

}  // namespace

int execute(Run* run, std::string* message) {
  int code = 0;
  {
    HereRun here(*run);
    code = here.place(message);
    if (code == 0) code = here.finish(message);
  }
  let_go_of_inputs(run);
  return code;
}

int wait_for(const Ref<Storage>* storages, size_t count, std::string* message) {
  int code = 0;
  for (size_t k = 0; k < count; ++k) {
    PJRT_Event* ready = storages[k]->ready.get();
    wait(ready);
    if (code == 0 && ready->state.load(std::memory_order_acquire) == PJRT_Event::kFailed) {
      code = ready->code;
      *message = ready->message;
    }
  }
  return code;
}

// -- arguments

namespace {

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

// The buffer has its storage again, if it has not got another one meanwhile.
void give_back(PJRT_Buffer* buffer, Ref<Storage> storage) {
  std::lock_guard<Spin> guard(buffer->lock);
  if (buffer->storage == nullptr) buffer->storage = std::move(storage);
}

}  // namespace

Inputs::~Inputs() {
  for (size_t k = 0; k < storages_.size(); ++k) {
    if (!is_taken_[k]) continue;
    for (auto& [at, original] : originals_)
      if (at == k) storages_[k] = std::move(original);
    give_back(arguments_[k], std::move(storages_[k]));
  }
}

void Inputs::commit() {
  for (bool& is_taken : is_taken_) is_taken = false;
  originals_.clear();
}

PJRT_Error* Inputs::take(const PJRT_ExecuteOptions* options) {
  for (size_t k = 0; k < storages_.size(); ++k)
    if (PJRT_Error* error = take_one(options, k)) return error;
  return lay_out();
}

PJRT_Error* Inputs::take_one(const PJRT_ExecuteOptions* options, size_t k) {
  const Array& array = program_.arguments[k];
  bool donated = array.is_donated && is_donatable(options, k) && !is_viewed(arguments_[k]);
  Ref<Storage>& storage = storages_[k];
  storage = donated ? taken_storage(arguments_[k]) : held_storage(arguments_[k]);
  if (storage == nullptr) return unusable(arguments_, k, program_, donated);
  is_taken_[k] = donated;
  if (donated && storage->references.load(std::memory_order_acquire) > 1 &&
      std::find(arguments_, arguments_ + k, arguments_[k]) != arguments_ + k)
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                    "Attempt to donate a buffer which is also used by the same call to Execute() "
                    "(%s: argument %zu is given before, too) [donation]",
                    program_.name.c_str(), k);
  if (storage->size < array.size)
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                    "Executable(%s) expected parameter %zu of size %lld but got buffer with "
                    "incompatible size %lld [argument-size]",
                    program_.name.c_str(), k, static_cast<long long>(array.size),
                    static_cast<long long>(storage->size));
  return nullptr;
}

PJRT_Error* Inputs::lay_out() {
  for (size_t k = 0; k < storages_.size(); ++k) {
    const Array& array = program_.arguments[k];
    const PJRT_Buffer& given = *arguments_[k];
    if (given.layout->bare == array.layout->bare ||
        given.rank != static_cast<int64_t>(array.dims.size()))
      continue;
    Ref<Storage> turned = relaid(storages_[k], array.type, given.dims, given.layout, array.layout);
    if (turned == nullptr)
      return failuref(
          PJRT_Error_Code_RESOURCE_EXHAUSTED,
          "no memory for argument %zu of %s in the layout it is read in [out-of-memory]", k,
          program_.name.c_str());
    originals_.emplace_back(k, std::exchange(storages_[k], std::move(turned)));
  }
  return nullptr;
}

void copy_small_inputs(Ref<Storage>* inputs, size_t count) {
  for (size_t k = 0; k < count; ++k) {
    Ref<Storage>& storage = inputs[k];
    if (storage == nullptr || storage->owner != Owner::kHost || storage->size > kMostToCopy)
      continue;
    Ref<Storage> copy = new_storage(storage->size);
    if (copy == nullptr) continue;
    memcpy(copy->data, storage->data, storage->size);
    storage = std::move(copy);
  }
}

// -- one device

PJRT_Error* fits_memory(const Program& program) {
  if (program.run_ns.load(std::memory_order_relaxed) >= 0) return nullptr;
  struct sysinfo machine;
  if (sysinfo(&machine) != 0) return nullptr;
  uint64_t there = (machine.totalram + machine.totalswap) * machine.mem_unit;
  for (const hl_program::FreshAllocation& block : program.core->blocks)
    if (static_cast<uint64_t>(block.size_bytes) > there)
      return failuref(PJRT_Error_Code_RESOURCE_EXHAUSTED,
                      "Out of memory allocating %lld bytes for a run of %s [out-of-memory]",
                      static_cast<long long>(block.size_bytes), program.name.c_str());
  return nullptr;
}

RunsOn runs_on(const Program& program, const PJRT_Device* device, bool are_ready) {
  // Who calls such a program may count on its calls of the host when it returns: nothing else tells
  // when they are done, if there are no results.
  if (program.calls_host) return RunsOn::kCaller;
  if (in_queue() || !device->client->asynchronous) return RunsOn::kCaller;
  int64_t took = program.run_ns.load(std::memory_order_relaxed);
  if (took < 0) took = program.expected_ns;
  return are_ready && took >= 0 && took < kWorthAThreadNs ? RunsOn::kCaller : RunsOn::kProgram;
}

namespace {

// One run with all that it needs of its own.
struct LaterRun {
  Ref<Program> program;
  PJRT_Device* device;
  std::vector<Ref<Storage>> inputs, outputs;
  std::vector<UserData> user_data;
  HostCallbacks callbacks;
  Ref<PJRT_Event> done;
};

// In the thread of a queue: waits for the arguments first. An argument that failed fails the run.
void execute_later(LaterRun* later) {
  std::string message;
  int code = wait_for(later->inputs.data(), later->inputs.size(), &message);
  if (code == 0) {
    UserDataList user_data{static_cast<int64_t>(later->user_data.size()), later->user_data.data()};
    Run run{later->program.get(), later->device, later->inputs.data(), later->outputs.data(),
            user_data};
    hl_host_transfers transfers = later->callbacks.transfers();
    if (!later->callbacks.empty()) run.transfers = &transfers;
    code = execute(&run, &message);
  }
  later->inputs.clear();
  later->outputs.clear();  // from here on only buffers hold the results
  finish(later->done.get(), code, message);
}

// One run on one device, in three steps that each may fail: its arguments are taken, memory is found,
// it begins. Until it begins everything can be given back, and is.
class Launch {
 public:
  Launch(Program* program, PJRT_Device* device, const PJRT_ExecuteOptions* options,
         PJRT_Buffer* const* arguments, PJRT_Buffer** results, size_t number = 0)
      : program_(program),
        device_(device),
        inputs_(*program, arguments),
        outputs_(program->results.size()),
        results_(results),
        callbacks_(options, number) {
    if (options->context == nullptr) return;
    static_assert(sizeof(UserData) == sizeof(PJRT_FFI_UserData));
    auto& data = options->context->data;
    user_data_ = {static_cast<int64_t>(data.size()),
                  reinterpret_cast<const UserData*>(data.data())};
  }
  ~Launch() {
    if (!has_begun_) withdraw();
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  PJRT_Error* take(const PJRT_ExecuteOptions* options) { return inputs_.take(options); }

  PJRT_Error* prepare() {
    bool are_ready = true;
    for (size_t k = 0; k < inputs_.size(); ++k) are_ready &= inputs_.storages()[k]->is_ready();
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const Result& result = program_->results[k];
      auto* storage = new Storage(2);  // of this run, and of the buffer
      storage->size = result.size;
      outputs_[k].reset(storage);
      results_[k] = new PJRT_Buffer(device_->listed[result.memory_kind], result.type,
                                    result.dims.data(), result.layout, Ref<Storage>(storage));
    }
    are_results_made_ = true;
    runs_on_ = runs_on(*program_, device_, are_ready);
    if (runs_on_ != RunsOn::kCaller) copy_small_inputs(inputs_.storages(), inputs_.size());
    if (runs_on_ != RunsOn::kCaller || !are_ready) return nullptr;
    run_ = {program_, device_, inputs_.storages(), outputs_.data(), user_data_};
    transfers_ = callbacks_.transfers();
    if (!callbacks_.empty()) run_.transfers = &transfers_;
    here_.emplace(run_);
    std::string message;
    int code = here_->place(&message);
    return code == 0 ? nullptr : failure(code, message);
  }

  PJRT_Error* begin(Ref<PJRT_Event>* done) {
    has_begun_ = true;
    if (!here_) {
      begin_later(done);
      return nullptr;
    }
    std::string message;
    int code = here_->finish(&message);
    here_.reset();
    let_go_of_inputs(&run_);
    inputs_.commit();
    if (code == 0) {
      done->reset(done_event());
      return nullptr;
    }
    withdraw();
    return failure(code, message);
  }

  // There are no results, whether or not it has begun.
  void withdraw() {
    for (size_t k = 0; k < outputs_.size() && are_results_made_; ++k)
      delete std::exchange(results_[k], nullptr);
    are_results_made_ = false;
  }

 private:
  void begin_later(Ref<PJRT_Event>* done) {
    auto later = std::make_shared<LaterRun>();
    later->program = Ref<Program>::of(program_);
    later->device = device_;
    for (size_t k = 0; k < inputs_.size(); ++k)
      later->inputs.push_back(std::move(inputs_.storages()[k]));
    inputs_.commit();
    later->user_data.assign(user_data_.entries, user_data_.entries + user_data_.count);
    later->callbacks = std::move(callbacks_);
    later->done.reset(new PJRT_Event);
    for (Ref<Storage>& output : outputs_) {
      output->ready = later->done;
      later->outputs.push_back(std::move(output));
    }
    *done = later->done;
    if (runs_on_ == RunsOn::kCaller) execute_later(later.get());
    else push(device_->programs, [later] { execute_later(later.get()); });
  }

  Program* program_;
  PJRT_Device* device_;
  Inputs inputs_;
  SmallArray<Ref<Storage>> outputs_;  // the buffers' in `results_`
  PJRT_Buffer** results_;
  UserDataList user_data_{};
  HostCallbacks callbacks_;
  hl_host_transfers transfers_{};  // of `callbacks_`
  Run run_{};
  std::optional<HereRun> here_;  // none: it runs later
  RunsOn runs_on_ = RunsOn::kCaller;
  bool are_results_made_ = false, has_begun_ = false;
};

PJRT_Error* launch_one(PJRT_LoadedExecutable_Execute_Args* a, PJRT_Device* device) {
  Launch launch(a->executable->program.get(), device, a->options, a->argument_lists[0],
                a->output_lists[0]);
  if (PJRT_Error* error = launch.take(a->options)) return error;
  if (PJRT_Error* error = launch.prepare()) return error;
  Ref<PJRT_Event> done;
  if (PJRT_Error* error = launch.begin(&done)) return error;
  if (a->device_complete_events != nullptr) a->device_complete_events[0] = done.passed_on();
  return nullptr;
}

// A run on each device. No device begins before all have their arguments and their memory, so one
// that cannot begin costs the others nothing: what is donated is its owner's again. What fails later
// leaves no results of those that had begun.
PJRT_Error* launch_all(PJRT_LoadedExecutable_Execute_Args* a) {
  const auto& devices = a->executable->devices;
  std::deque<Launch> launches;
  for (size_t d = 0; d < devices.size(); ++d) {
    Launch& launch = launches.emplace_back(a->executable->program.get(), devices[d], a->options,
                                           a->argument_lists[d], a->output_lists[d], d);
    if (PJRT_Error* error = launch.take(a->options)) return error;
  }
  for (Launch& launch : launches)
    if (PJRT_Error* error = launch.prepare()) return error;
  std::vector<Ref<PJRT_Event>> done(devices.size());
  for (size_t d = 0; d < devices.size(); ++d) {
    if (PJRT_Error* error = launches[d].begin(&done[d])) {
      for (Launch& launch : launches) launch.withdraw();
      return error;
    }
  }
  for (size_t d = 0; d < devices.size() && a->device_complete_events != nullptr; ++d)
    a->device_complete_events[d] = done[d].passed_on();
  return nullptr;
}

}  // namespace

PJRT_Error* LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args* a) {
  PJRT_LoadedExecutable& executable = *a->executable;
  Program* program = executable.program.get();
  if (executable.is_deleted)
    return failuref(PJRT_Error_Code_FAILED_PRECONDITION, "%s has been deleted [deleted-executable]",
                    program->name.c_str());
  if (a->num_args != program->arguments.size())
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                    "%s takes %zu arguments, %zu were given [argument-count]",
                    program->name.c_str(), program->arguments.size(), a->num_args);
  bool anywhere = executable.assigned.empty();
  size_t wanted = anywhere || a->execute_device != nullptr ? 1 : executable.devices.size();
  if (a->num_devices != wanted)
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                    "%s runs on %zu devices, arguments for %zu were given [device-count]",
                    program->name.c_str(), wanted, a->num_devices);
  if (PJRT_Error* error = fits_memory(*program)) return error;
  if (program->is_together) {
    if (a->options->num_send_ops > 0 || a->options->num_recv_ops > 0)
      return failuref(PJRT_Error_Code_UNIMPLEMENTED,
                      "%s runs on several devices at once, without host callbacks [host-callback]",
                      program->name.c_str());
    return launch_together(a);
  }
  if (wanted != 1) return launch_all(a);
  if (a->execute_device != nullptr) return launch_one(a, a->execute_device);
  return launch_one(a, anywhere ? executable.client->addressable[0] : executable.devices[0]);
}

}  // namespace hloom::pjrt
