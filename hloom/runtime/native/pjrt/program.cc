// Programs: taken over from the compiler, given back when nothing needs them any more.
#include "loading.h"

#include <string.h>

#include "workers.h"

HL_API hl_context* hl_context_new(hl_pool* pool, hl_arena* arena);
HL_API void hl_context_free(hl_context* context);
HL_API void hl_context_set_rng(hl_context* context, hl_rng* rng);
HL_API void hl_context_set_feeds(hl_context* context, hl_queue* infeed, hl_queue* outfeed,
                                 int64_t timeout_ns);
HL_API void hl_context_set_call_sites(hl_context* context, hl_call_site* sites, int64_t count);

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

template <typename From>
void fill(Array* to, const From& from, int64_t devices) {
  to->allocation = from.allocation;
  to->type = static_cast<PJRT_Buffer_Type>(from.type);
  to->dims.assign(from.dims, from.dims + from.rank);
  to->size = bytes_of(to->type, from.dims, from.rank);
  to->layout = from.layout == nullptr ? nullptr : layout_of(from.layout, from.rank);
  if (to->layout == nullptr) to->layout = row_major(from.rank);
  to->memory_kind = static_cast<int>(from.memory_kind);
  if (from.sharding != nullptr) to->sharding.assign(from.sharding, from.sharding_size);
  if (from.whole == nullptr) return;
  to->whole.assign(from.whole, from.whole + from.rank);
  to->whole_size = bytes_of(to->type, from.whole, from.rank);
  to->offsets.assign(from.offsets, from.offsets + from.rank * devices);
}

Source source_of(const Program& program, const Result& result, int64_t* argument) {
  if (result.allocation < 0) return Source::kNone;
  for (size_t k = 0; k < program.results.size(); ++k)
    if (program.results[k].allocation == result.allocation) return Source::kCopy;
  for (const hl_pjrt_block& block : program.blocks)
    if (block.allocation == result.allocation)
      return block.is_temporary ? Source::kCopy : Source::kBlock;
  for (size_t k = 0; k < program.arguments.size(); ++k) {
    const Array& a = program.arguments[k];
    if (a.allocation == result.allocation && (a.flags & HL_PJRT_WRITTEN)) {
      *argument = static_cast<int64_t>(k);
      return Source::kWritten;
    }
  }
  return Source::kCopy;
}

Program* made(const hl_pjrt_program& from) {
  auto* program = new Program;
  program->handle = from.handle;
  program->name = from.name;
  program->fingerprint = from.fingerprint;
  program->entry = from.entry;
  program->pool = from.pool;
  program->random = from.random;
  program->infeed = from.infeed;
  program->outfeed = from.outfeed;
  program->sites = from.sites;
  program->site_count = from.site_count;
  program->fixed.assign(from.fixed, from.fixed + from.allocation_count);
  if (from.block_names != nullptr)
    program->block_names.assign(from.block_names, from.block_names + from.allocation_count);
  program->blocks.assign(from.blocks, from.blocks + from.block_count);
  for (int64_t k = 0; k < from.argument_count; ++k) {
    Array array{};
    fill(&array, from.arguments[k], from.partition_count);
    array.flags = from.arguments[k].flags;
    program->arguments.push_back(std::move(array));
  }
  for (int64_t k = 0; k < from.result_count; ++k) {
    Result result{};
    fill(&result, from.results[k], from.partition_count);
    result.offset = from.results[k].offset;
    result.source = source_of(*program, result, &result.argument);
    program->results.push_back(std::move(result));
  }
  program->replicas = from.replica_count;
  program->partitions = from.partition_count;
  program->devices.assign(from.devices, from.devices + from.device_count);
  program->expected_ns = from.expected_ns;
  program->calls_host = from.calls_host != 0;
  program->is_portable = from.is_portable != 0;
  program->code_bytes = from.code_bytes;
  program->temporary_bytes = from.temporary_bytes;
  program->alias_bytes = from.alias_bytes;
  for (int64_t k = 0; k < from.region_count; ++k) program->regions.push_back(made(from.regions[k]));
  return program;
}

}  // namespace

Program* retained(Program* program) {
  program->references.fetch_add(1, std::memory_order_relaxed);
  return program;
}

void release(Program* program) {
  if (program->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  for (hl_context* context : program->contexts) hl_context_free(context);
  for (Program* region : program->regions) release(region);
  if (program->handle > 0) forget(program->handle);
  if (program->handle < 0) free_loaded(program->handle);
  delete program;
}

hl_context* context_for(Program* program) {
  {
    std::lock_guard<Spin> guard(program->lock);
    if (!program->contexts.empty()) {
      hl_context* context = program->contexts.back();
      program->contexts.pop_back();
      return context;
    }
  }
  hl_context* context = hl_context_new(program->pool, nullptr);
  if (context == nullptr) return nullptr;
  hl_context_set_rng(context, program->random);
  hl_context_set_feeds(context, program->infeed, program->outfeed, -1);
  hl_context_set_call_sites(context, program->sites, program->site_count);
  return context;
}

void put_back(Program* program, hl_context* context) {
  std::lock_guard<Spin> guard(program->lock);
  program->contexts.push_back(context);
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
  reply->program = hloom::pjrt::made(*program);
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

// Stands where the main function of a program for another machine would.
HL_API int32_t hl_pjrt_foreign_program(hl_context* context, void**) {
  return hl_set_error(
      context, HL_FAILED_PRECONDITION,
      "the program is compiled for a machine that this one cannot stand for: run it "
      "there, or compile it without a topology [machine]");
}
