// Programs: taken over from the compiler, given back when nothing needs them any more.
#include "entries.h"
#include "loading.h"
#include "workers.h"

namespace hloom::pjrt {
namespace {

std::mutex compiler_mutex;
const hl_pjrt_compiler* compiler = nullptr;
bool has_ended = false;

std::mutex queues_mutex;
std::vector<Queue*> queues;

// Handles to be taken by the compiler. A thread of jaxlib may let go of the last executable while
// Python ends, when calling Python would kill it; so the compiler is only told that there are some.
std::mutex released_mutex;
std::vector<int64_t> released_handles;

void forget(int64_t handle) {
  std::lock_guard<std::mutex> guard(released_mutex);
  released_handles.push_back(handle);
  if (Compiler compiler; compiler && released_handles.size() % 16 == 1)
    compiler->call_soon(compiler->released, nullptr);
}

Ref<Program> made(const hl_pjrt_program& part, hl_pjrt_reply* reply) {
  Ref<Program> program;
  std::string_view launch_spec(static_cast<const char*>(part.launch_spec), part.launch_spec_size);
  if (PJRT_Error* error = with_launch_spec(part.program, launch_spec, &program)) {
    PJRT_Error_Message_Args a{};
    a.error = error;
    Error_Message(&a);
    hl_pjrt_reply_error(reply, PJRT_Error_Code_INTERNAL, a.message);
    PJRT_Error_Destroy_Args gone{};
    gone.error = error;
    Error_Destroy(&gone);
    return nullptr;
  }
  program->handle = part.handle;
  program->expected_ns = part.expected_ns;
  return program;
}

}  // namespace

Program* retained(Program* program) {
  program->references.fetch_add(1, std::memory_order_relaxed);
  return program;
}

void release(Program* program) {
  if (program->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete program;
}

Program::~Program() {
  if (handle > 0) forget(handle);
}

Compiler::Compiler() {
  std::lock_guard<std::mutex> guard(compiler_mutex);
  table_ = compiler;
  fegetenv(&callers_);
  fesetenv(FE_DFL_ENV);
}

Compiler::~Compiler() { fesetenv(&callers_); }

bool compiler_has_ended() {
  std::lock_guard<std::mutex> guard(compiler_mutex);
  return has_ended;
}

void remember_queue(Queue* queue) {
  std::lock_guard<std::mutex> guard(queues_mutex);
  queues.push_back(queue);
}

}  // namespace hloom::pjrt

HL_API void hl_pjrt_set_compiler(const hl_pjrt_compiler* given) {
  std::lock_guard<std::mutex> guard(hloom::pjrt::compiler_mutex);
  hloom::pjrt::has_ended = given == nullptr;
  if (given != nullptr) hloom::pjrt::python_goes_on();
  hloom::pjrt::compiler = given;
}

HL_API void hl_pjrt_set_versions(const char* platform, int64_t major, int64_t minor,
                                 int64_t patch) {
  hloom::pjrt::set_platform_version(platform);
  hloom::pjrt::set_stablehlo_version(major, minor, patch);
}

HL_API void hl_pjrt_drain() {
  hloom::pjrt::end_of_python();
  std::vector<hloom::pjrt::Queue*> all;
  {
    std::lock_guard<std::mutex> guard(hloom::pjrt::queues_mutex);
    all = hloom::pjrt::queues;
  }
  for (hloom::pjrt::Queue* queue : all) hloom::pjrt::drain(queue);
}

HL_API void hl_pjrt_reply_program(hl_pjrt_reply* reply, const hl_pjrt_program* program) {
  reply->program = hloom::pjrt::made(*program, reply);
}

HL_API void hl_pjrt_reply_bytes(hl_pjrt_reply* reply, const char* bytes, int64_t size) {
  reply->bytes.assign(bytes, size);
}

HL_API void hl_pjrt_reply_number(hl_pjrt_reply* reply, const char* name, double value) {
  reply->numbers.emplace_back(name, value);
}

HL_API void hl_pjrt_reply_error(hl_pjrt_reply* reply, int64_t code, const char* message) {
  reply->code = code;
  reply->message = message;
}

HL_API int64_t hl_pjrt_take_released(int64_t* handles, int64_t most) {
  std::lock_guard<std::mutex> guard(hloom::pjrt::released_mutex);
  auto& all = hloom::pjrt::released_handles;
  int64_t count = 0;
  for (; count < most && !all.empty(); ++count) {
    handles[count] = all.back();
    all.pop_back();
  }
  return count;
}
