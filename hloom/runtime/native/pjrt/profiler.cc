// Profiles: what happened between start and stop, as the protobuf that xprof and Perfetto's converter
// read (an XSpace). Every thread has a line, on which what it did stands inside what it was part of.
#include "profiler.h"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "xspace.h"

namespace hloom::pjrt {

std::atomic<bool> is_profiled{false};

namespace {

constexpr size_t kMostEvents = 1 << 20;

// What is written down at present; one profiler at a time does.
std::mutex mutex;
const void* owner = nullptr;
std::vector<Event> events;
std::map<int64_t, std::string> threads;
std::atomic<int64_t> runs{0};

int64_t this_thread() {
  static thread_local int64_t number = syscall(SYS_gettid);
  return number;
}

void keep(std::vector<Event> made) {
  int64_t thread = this_thread();
  char name[64] = "hloom in ";  // jaxlib writes a line for the thread, too
  char* own = name + strlen(name);
  if (pthread_getname_np(pthread_self(), own, 32) != 0 || strncmp(own, "hloom", 5) != 0) own = name;
  std::lock_guard<std::mutex> guard(mutex);
  if (owner == nullptr) return;  // stopped meanwhile
  threads.try_emplace(thread, own);
  for (Event& event : made) {
    if (events.size() >= kMostEvents) break;
    event.thread = thread;
    events.push_back(std::move(event));
  }
}

// The names of a program's kernels by address, asked for once.
const StepNames& names_of(Program* program) {
  static const StepNames none;
  std::lock_guard<Spin> guard(program->lock);
  return program->step_names != nullptr ? *program->step_names : none;
}

void have_names(Program* program) {
  {
    std::lock_guard<Spin> guard(program->lock);
    if (program->step_names != nullptr) return;
  }
  auto found = std::make_unique<StepNames>();
  if (program->handle > 0) {
    hl_pjrt_reply reply;
    Compiler compiler;
    if (compiler) compiler->ask(program->handle, HL_PJRT_ASK_STEPS, &reply);
    for (auto& [name, address] : reply.numbers)
      found->try_emplace(reinterpret_cast<void*>(static_cast<uintptr_t>(address)), name);
  }
  std::lock_guard<Spin> guard(program->lock);
  if (program->step_names == nullptr) program->step_names = std::move(found);
}

std::string name_of(const Step& step, const StepNames& names) {
  if (step.name != nullptr) return step.name;
  auto found = names.find(step.code);
  return found != names.end() ? found->second : "kernel";
}

int64_t wall_minus_steady_ns() {
  timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  return wall.tv_sec * int64_t{1'000'000'000} + wall.tv_nsec - now_ns();
}

}  // namespace

void Span::end() {
  Event event{};
  event.begin_ns = begin_ns_;
  event.end_ns = now_ns();
  event.name = program_.empty() ? what_ : std::string(what_) + " " + program_;
  event.program = program_;
  event.bytes = bytes_;
  event.device = event.run = -1;
  keep({std::move(event)});
}

void RunSpan::begin(const Run& run, hl_context* context) {
  run_ = &run;
  context_ = context;
  have_names(run.program);
  steps_.most = kMostEvents;
  hloom::of(context)->steps = &steps_;
  begin_ns_ = now_ns();
}

void RunSpan::end() {
  hloom::of(context_)->steps = nullptr;
  const StepNames& names = names_of(run_->program);
  Event run{};
  run.begin_ns = begin_ns_;
  run.end_ns = now_ns();
  run.name = run.program = run_->program->name;
  run.device = context_->device;
  run.run = runs.fetch_add(1, std::memory_order_relaxed);
  run.bytes = -1;
  std::vector<Event> made;
  made.reserve(steps_.done.size() + 1);
  for (const Step& step : steps_.done) {
    made.push_back(run);
    made.back().begin_ns = step.begin_ns;
    made.back().end_ns = step.end_ns;
    made.back().is_step = true;
    made.back().name = name_of(step, names);
  }
  made.push_back(std::move(run));
  keep(std::move(made));
}

}  // namespace hloom::pjrt

struct PLUGIN_Profiler_Error {
  int code;
  std::string message;
};

struct PLUGIN_Profiler {
  std::string profile;  // of what was written down, once it is stopped
};

namespace hloom::pjrt {
namespace {

PLUGIN_Profiler_Error* wrong(const char* message) {
  return new PLUGIN_Profiler_Error{PJRT_Error_Code_FAILED_PRECONDITION, message};
}

void error_destroy(PLUGIN_Profiler_Error_Destroy_Args* a) { delete a->error; }

void error_message(PLUGIN_Profiler_Error_Message_Args* a) {
  a->message = a->error->message.data();
  a->message_size = a->error->message.size();
}

PLUGIN_Profiler_Error* error_code(PLUGIN_Profiler_Error_GetCode_Args* a) {
  a->code = a->error->code;
  return nullptr;
}

PLUGIN_Profiler_Error* create(PLUGIN_Profiler_Create_Args* a) {
  a->profiler = new PLUGIN_Profiler;
  return nullptr;
}

PLUGIN_Profiler_Error* start(PLUGIN_Profiler_Args* a) {
  std::lock_guard<std::mutex> guard(mutex);
  if (owner != nullptr) return wrong("another profile of hloom is being taken [profiler]");
  owner = a->profiler;
  events.clear();
  threads.clear();
  a->profiler->profile.clear();
  is_profiled = true;
  return nullptr;
}

PLUGIN_Profiler_Error* stop(PLUGIN_Profiler_Args* a) {
  std::lock_guard<std::mutex> guard(mutex);
  if (owner != a->profiler) return wrong("this profile of hloom is not being taken [profiler]");
  is_profiled = false;
  owner = nullptr;
  a->profiler->profile = written(events, threads, wall_minus_steady_ns());
  events = {};
  return nullptr;
}

PLUGIN_Profiler_Error* destroy(PLUGIN_Profiler_Args* a) {
  {
    std::lock_guard<std::mutex> guard(mutex);
    if (owner == a->profiler) {
      is_profiled = false;
      owner = nullptr;
      events = {};
    }
  }
  delete a->profiler;
  return nullptr;
}

// jaxlib calls once and reads the buffer that it is given; others call again with one of theirs.
PLUGIN_Profiler_Error* collect(PLUGIN_Profiler_CollectData_Args* a) {
  std::string& profile = a->profiler->profile;
  auto* own = reinterpret_cast<uint8_t*>(profile.data());
  if (a->buffer == nullptr) a->buffer = own;
  else if (a->buffer != own) memcpy(a->buffer, own, profile.size());
  a->buffer_size_in_bytes = profile.size();
  return nullptr;
}

}  // namespace

PLUGIN_Profiler_Api* profiler_api() {
  static PLUGIN_Profiler_Api api{sizeof(PLUGIN_Profiler_Api),
                                 nullptr,
                                 error_destroy,
                                 error_message,
                                 error_code,
                                 create,
                                 destroy,
                                 start,
                                 stop,
                                 collect};
  return &api;
}

}  // namespace hloom::pjrt
