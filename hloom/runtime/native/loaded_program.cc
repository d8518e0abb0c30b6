// Makes programs of the section PROGRAM of saved ones, which a compiler writes in memory.
//
// The section is not trusted: every range in it is bounded, every allocation named is there.
#include "loaded_program.h"

#include <stdio.h>
#include <string.h>

#include <memory>
#include <mutex>
#include <new>

#include "context.h"
#include "guard.h"
#include "joined.h"
#include "processor.h"

namespace hloom {
namespace {

constexpr int64_t kFeedCapacity = 1 << 16;
constexpr int kMostNested = 16;
// Memory of constants is aligned to this at least, as arguments are.
constexpr uintptr_t kAlignment = 16;
// Custom calls whose target has this in its name may wait for Python.
constexpr std::string_view kHostTarget = "callback";

thread_local Problem last_problem;

bool refuse(Problem* problem, int32_t status, const char* rule, std::string text) {
  *problem = {status, rule, std::move(text), nullptr};
  return false;
}

bool malformed(Problem* problem) {
  return refuse(problem, HL_INVALID_ARGUMENT, "saved-program", "a saved program is malformed");
}

bool no_memory(Problem* problem) {
  return refuse(problem, HL_RESOURCE_EXHAUSTED, "out-of-memory", "no memory to load a program in");
}

// Fills a program from its section.
class Builder {
 public:
  Builder(hl_program* program, const hl_program_parts& parts, Problem* problem)
      : program_(*program),
        parts_(parts),
        problem_(problem),
        in_({reinterpret_cast<const char*>(program->record.data()),
             static_cast<size_t>(parts.record_size)}) {}

  bool build() {
    row_ = in_.first<saved::Program>();
    if (row_ == nullptr) return malformed(problem_);
    if (row_->runtime != hl_abi_version())
      return refuse(problem_, HL_INVALID_ARGUMENT, "saved-program",
                    "a saved program is of another version of hloom; compile it again");
    program_.name = in_.text(row_->name);
    return check_processor() && read_memory() && read_leaves() && load_constants() && load_code() &&
           load_sites();
  }

 private:
  bool check_processor() {
    if (row_->has_processor == 0 || parts_.is_foreign != 0) return true;
    // Of the many things that a data layout says the runtime shares two with the code.
    std::string_view layout = in_.text(row_->data_layout);
    if (!layout.empty() && (layout[0] != 'e' || layout.find("-p:32:32") != layout.npos))
      return refuse(problem_, HL_FAILED_PRECONDITION, "processor",
                    joined({program_.name, " was compiled for the data layout ", layout,
                            ", and here the lowest byte is the first, and addresses have 64 bits; "
                            "compile it again"}));
    std::string_view triple = in_.text(row_->triple);
    std::string missing =
        missing_features(triple.substr(0, triple.find('-')), in_.text(row_->features));
    if (missing.empty()) return true;
    std::string mismatch = arch_mismatch(missing);
    std::string what = joined({mismatch, mismatch.empty() ? "" : ": ", program_.name,
                               " was compiled for processors with ", missing,
                               ", which this one has not: it may end with SIGILL"});
    if (is_tried_all_the_same(missing)) {
      fprintf(stderr, "hloom: %s\n", what.c_str());
      return true;
    }
    return refuse(problem_, HL_FAILED_PRECONDITION, "processor",
                  joined({what,
                          "; compile it again here, or there with cpu_max_isa for older "
                          "processors"}));
  }

  bool is_allocation(int64_t index, int64_t offset, int64_t size) const {
    return index >= 0 && index < row_->allocations.count && offset >= 0 && size >= 0 &&
           offset <= allocations_[index].size_bytes &&
           size <= allocations_[index].size_bytes - offset;
  }

  bool is_written(int64_t index) const {
    const saved::Allocation& a = allocations_[index];
    return a.kind == saved::kParameterMemory &&
           (a.is_donated != 0 || a.output_index.at != saved::kNowhere);
  }

  bool read_memory() {
    allocations_ = in_.records<saved::Allocation>(row_->allocations);
    if (allocations_ == nullptr) return malformed(problem_);
    program_.fixed.assign(row_->allocations.count, nullptr);
    for (int64_t k = 0; k < row_->allocations.count; ++k) {
      const saved::Allocation& a = allocations_[k];
      if (a.size_bytes < 0 || a.kind < saved::kParameterMemory || a.kind > saved::kTempMemory ||
          (a.kind == saved::kConstantMemory && a.constant_bytes != a.size_bytes))
        return malformed(problem_);
      bool is_temporary = a.kind == saved::kTempMemory;
      if (is_temporary || a.kind == saved::kOutputMemory)
        program_.blocks.push_back({k, a.size_bytes, is_temporary});
      if (is_temporary) program_.temporary_bytes += a.size_bytes;
    }
    if (parts_.block_names != nullptr)
      program_.block_names.assign(parts_.block_names, parts_.block_names + row_->allocations.count);
    return true;
  }

  bool read_leaves() {
    const auto* parameters = in_.records<saved::Parameter>(row_->parameters);
    const auto* results = in_.records<saved::Result>(row_->results);
    if (parameters == nullptr || results == nullptr) return malformed(problem_);
    for (int64_t k = 0; k < row_->parameters.count; ++k) {
      const saved::Parameter& p = parameters[k];
      bool is_read = p.allocation >= 0;
      if (is_read && (!is_allocation(p.allocation, 0, p.size_bytes) ||
                      allocations_[p.allocation].kind != saved::kParameterMemory))
        return malformed(problem_);
      program_.arguments.push_back(
          {is_read ? p.allocation : -1, p.size_bytes, is_read && is_written(p.allocation)});
    }
    for (int64_t k = 0; k < row_->results.count; ++k) {
      const saved::Result& r = results[k];
      if (r.allocation >= 0 && !is_allocation(r.allocation, r.offset, r.size_bytes))
        return malformed(problem_);
      hl_program::Result result{r.allocation, r.offset, r.size_bytes, Source::kNone, -1};
      result.source = source_of(&result);
      program_.results.push_back(result);
    }
    return true;
  }

  Source source_of(hl_program::Result* result) {
    if (result->allocation < 0) return Source::kNone;
    for (const hl_program::Result& other : program_.results)
      if (other.allocation == result->allocation) return Source::kCopy;
    const saved::Allocation& a = allocations_[result->allocation];
    if (a.kind == saved::kOutputMemory) return Source::kBlock;
    for (size_t k = 0; k < program_.arguments.size(); ++k) {
      const hl_program::Argument& argument = program_.arguments[k];
      if (!argument.is_written || argument.allocation != result->allocation) continue;
      program_.alias_bytes += a.size_bytes;
      result->argument = static_cast<int64_t>(k);
      return Source::kWritten;
    }
    return Source::kCopy;
  }

  bool load_constants() {
    for (int64_t k = 0; k < row_->allocations.count; ++k) {
      if (allocations_[k].kind != saved::kConstantMemory) continue;
      const void* at = parts_.constants == nullptr ? nullptr : parts_.constants[k];
      int64_t size = allocations_[k].size_bytes;
      if (at == nullptr && size > 0) return malformed(problem_);
      bool is_aligned = at != nullptr && reinterpret_cast<uintptr_t>(at) % kAlignment == 0;
      if (is_aligned && parts_.copies_constants == 0 && !guarding) {
        program_.fixed[k] = const_cast<void*>(at);
        continue;
      }
      void* block = hl_arena_alloc(nullptr, size);
      if (block == nullptr) return no_memory(problem_);
      program_.own_constants.push_back(block);
      if (size > 0) memcpy(block, at, size);
      if (guarding) hl_guard_read_only(block, 1);
      program_.fixed[k] = block;
    }
    return true;
  }

  bool load_code() {
    if (parts_.is_foreign != 0) return true;
    const auto* objects = in_.records<saved::Object>(row_->objects);
    if (objects == nullptr) return malformed(problem_);
    std::vector<const void*> starts;
    std::vector<int64_t> sizes;
    for (int64_t k = 0; k < row_->objects.count; ++k) {
      auto [at, size] = objects[k];
      if (at < 0 || size < 0 || at > parts_.objects_size || size > parts_.objects_size - at)
        return malformed(problem_);
      starts.push_back(static_cast<const char*>(parts_.objects) + at);
      sizes.push_back(size);
    }
    char message[4000] = "";
    program_.code =
        hl_load_objects(starts.data(), sizes.data(), nullptr, static_cast<int64_t>(starts.size()),
                        0, nullptr, nullptr, nullptr, 0, message, sizeof(message));
    if (program_.code == nullptr)
      return refuse(problem_, HL_INVALID_ARGUMENT, "object-load",
                    joined({"objects cannot be loaded:\n", message}));
    std::string entry(in_.text(row_->entry));
    void* main = hl_symbol(program_.code, entry.c_str());
    program_.entry = reinterpret_cast<hl_main_function>(main);
    if (main != nullptr) return true;
    return refuse(problem_, HL_INVALID_ARGUMENT, "object-load",
                  joined({"no symbol ", entry, " in the loaded objects"}));
  }

  const std::vector<hl_call_buffer>& buffers(saved::Range place) {
    auto& made = program_.call_buffers.emplace_back();
    const auto* rows = in_.records<saved::CallBuffer>(place);
    for (int64_t k = 0; rows != nullptr && k < place.count; ++k) {
      const saved::CallBuffer& b = rows[k];
      const int64_t* dims = in_.numbers(b.dims);
      if (b.allocation != -1 && !is_allocation(b.allocation, b.offset, b.size_bytes))
        in_.is_whole = false;
      made.push_back({b.dtype, b.dims.count, dims, b.allocation, b.offset});
    }
    return made;
  }

  const std::vector<hl_attribute>& attributes(saved::Range place, int depth = 0) {
    auto& made = program_.attributes.emplace_back();
    const auto* rows = in_.records<saved::Attribute>(place);
    if (depth > kMostNested) in_.is_whole = false;
    for (int64_t k = 0; rows != nullptr && k < place.count && in_.is_whole; ++k) {
      const saved::Attribute& a = rows[k];
      std::string_view name = in_.text(a.name);
      hl_attribute attribute{name.data(), a.name.count, a.kind, a.dtype, a.count, nullptr};
      if (a.kind == HL_ATTRIBUTE_DICTIONARY) {
        const auto& entries = attributes(a.data, depth + 1);
        attribute.count = static_cast<int64_t>(entries.size());
        attribute.data = entries.data();
      } else {
        attribute.data = in_.text(a.data).data();
        if (a.data.at % 8 != 0) in_.is_whole = false;
      }
      made.push_back(attribute);
    }
    return made;
  }

  bool load_site(const saved::CallSite& row) {
    hl_call_site site{};
    std::string target(in_.text(row.target));
    std::string name = joined({"%", in_.text(row.name), " (", target, ")"});
    site.name = program_.site_names.emplace_back(name.substr(0, 300)).c_str();
    site.call = hl_custom_call_find(target.c_str());
    if (site.call == nullptr && in_.is_whole && parts_.is_foreign == 0)
      return refuse(problem_, HL_NOT_FOUND, "custom-call-handler",
                    joined({"no handler is registered for custom calls to '", target, "' (", name,
                            "); in C, hloom_rt_register or the plugin's FFI extension adds one"}));
    const auto& operands = buffers(row.operands);
    const auto& results = buffers(row.results);
    const auto& given = attributes(row.attributes);
    site.operand_count = static_cast<int64_t>(operands.size());
    site.operands = operands.data();
    site.result_count = static_cast<int64_t>(results.size());
    site.results = results.data();
    site.attribute_count = static_cast<int64_t>(given.size());
    site.attributes = given.data();
    program_.sites.push_back(site);
    program_.calls_host |= target.find(kHostTarget) != target.npos;
    return in_.is_whole || malformed(problem_);
  }

  bool load_sites() {
    program_.calls_host = row_->infeeds.count > 0 || row_->outfeeds.count > 0;
    const auto* rows = in_.records<saved::CallSite>(row_->call_sites);
    for (int64_t k = 0; rows != nullptr && k < row_->call_sites.count; ++k)
      if (!load_site(rows[k])) return false;
    if (!in_.is_whole) return malformed(problem_);
    if (program_.sites.empty() || parts_.is_foreign != 0) return true;
    hl_context* context = hl_program_context(&program_);
    if (context == nullptr) return no_memory(problem_);
    int32_t status = hl_call_sites_instantiate(context, program_.sites.data(),
                                               static_cast<int64_t>(program_.sites.size()));
    if (status != HL_OK) *problem_ = {status, "", hl_context_message(context), context};
    hl_program_put_back(&program_, context);
    return status == HL_OK;
  }

  hl_program& program_;
  const hl_program_parts& parts_;
  Problem* problem_;
  saved::Reader in_;
  const saved::Program* row_ = nullptr;
  const saved::Allocation* allocations_ = nullptr;
};

int32_t foreign_program(hl_context* context, void**) {
  return hl_set_error(context, HL_FAILED_PRECONDITION,
                      "the program is compiled for a machine that this one cannot stand for: run "
                      "it there, or compile it without a topology [machine]");
}

}  // namespace

hl_context* context_of_device(hl_program* program, int64_t device) {
  hl_rng* random = nullptr;
  {
    std::lock_guard guard(program->lock);
    auto& randoms = program->device_randoms;
    while (static_cast<int64_t>(randoms.size()) <= device) {
      randoms.push_back(hl_rng_new());
      if (randoms.back() == nullptr) {
        randoms.pop_back();
        return nullptr;
      }
    }
    random = randoms[device];
  }
  hl_queue* infeed = hl_program_infeed(program, device);
  hl_queue* outfeed = hl_program_outfeed(program, device);
  if (infeed == nullptr || outfeed == nullptr) return nullptr;
  hl_context* context = hl_program_context(program);
  if (context == nullptr) return nullptr;
  hl_context_set_rng(context, random);
  hl_context_set_feeds(context, infeed, outfeed, -1);
  return context;
}

// The queue of a device but the first, made when it is first asked for; null: no memory.
static hl_queue* queue_of(hl_program* program, std::vector<hl_queue*>& queues, int64_t device) {
  std::lock_guard guard(program->lock);
  while (static_cast<int64_t>(queues.size()) < device) {
    hl_queue* made = hl_queue_new(kFeedCapacity);
    if (made == nullptr) return nullptr;
    queues.push_back(made);
  }
  return queues[device - 1];
}

void remember(const Problem& problem) { last_problem = problem; }

hl_program* load_program(const hl_program_parts& parts, Problem* problem) {
  auto program = std::make_unique<hl_program>();
  program->record.resize((parts.record_size + 7) / 8);
  if (parts.record_size > 0) memcpy(program->record.data(), parts.record, parts.record_size);
  program->pool = parts.pool;
  program->random = hl_rng_new();
  program->infeed = hl_queue_new(kFeedCapacity);
  program->outfeed = hl_queue_new(kFeedCapacity);
  if (program->random == nullptr || program->infeed == nullptr || program->outfeed == nullptr) {
    no_memory(problem);
    return nullptr;
  }
  if (parts.is_foreign != 0) program->entry = foreign_program;
  return Builder(program.get(), parts, problem).build() ? program.release() : nullptr;
}

hl_program* load_program(const saved::File& file, hl_pool* pool, bool copies_constants,
                         Problem* problem) {
  std::string_view record = file.section(saved::kProgram);
  std::string_view objects = file.section(saved::kObjects);
  std::string_view constants = file.section(saved::kConstants);
  // The caller's memory may stand anywhere; records are read where numbers may.
  std::vector<int64_t> aligned((record.size() + 7) / 8);
  if (!record.empty()) memcpy(aligned.data(), record.data(), record.size());
  saved::Reader in({reinterpret_cast<const char*>(aligned.data()), record.size()});
  const auto* row = in.first<saved::Program>();
  const auto* rows = row == nullptr ? nullptr : in.records<saved::Allocation>(row->allocations);
  std::vector<const void*> places(rows == nullptr ? 0 : row->allocations.count);
  for (size_t k = 0; k < places.size(); ++k) {
    uint64_t at = rows[k].constant_at, size = rows[k].constant_bytes;
    if (rows[k].constant_at >= 0 && at <= constants.size() && size <= constants.size() - at)
      places[k] = constants.data() + at;
  }
  hl_program_parts parts{aligned.data(),
                         static_cast<int64_t>(record.size()),
                         objects.data(),
                         static_cast<int64_t>(objects.size()),
                         places.data(),
                         copies_constants,
                         pool,
                         nullptr,
                         0};
  return load_program(parts, problem);
}

}  // namespace hloom

hl_program::~hl_program() {
  for (hl_context* context : contexts) hl_context_free(context);
  hl_call_sites_end(sites.data(), static_cast<int64_t>(sites.size()));
  hl_unload(code);
  hl_rng_free(random);
  for (hl_rng* each : device_randoms) hl_rng_free(each);
  hl_queue_free(infeed);
  hl_queue_free(outfeed);
  for (hl_queue* each : infeeds) hl_queue_free(each);
  for (hl_queue* each : outfeeds) hl_queue_free(each);
  for (void* block : own_constants) hl_arena_free(nullptr, block);
}

HL_API hl_program* hl_program_new(const hl_program_parts* parts) {
  hloom::Problem problem;
  hl_program* program = hloom::load_program(*parts, &problem);
  if (program == nullptr) hloom::remember(problem);
  return program;
}

HL_API hl_program* hl_program_retain(hl_program* program) {
  program->references.fetch_add(1, std::memory_order_relaxed);
  return program;
}

HL_API void hl_program_release(hl_program* program) {
  if (program->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete program;
}

HL_API void hl_last_problem(hl_problem* problem) {
  const hloom::Problem& last = hloom::last_problem;
  problem->status = last.status;
  problem->context = last.context;
  snprintf(problem->rule, sizeof(problem->rule), "%s", last.rule.c_str());
  snprintf(problem->text, sizeof(problem->text), "%s", last.text.c_str());
}

// A fork may have left the lock taken: then there is a new context, and no waiting.
HL_API hl_context* hl_program_context(hl_program* program) {
  hl_context* context = nullptr;
  if (std::unique_lock guard(program->lock, std::try_to_lock);
      guard.owns_lock() && !program->contexts.empty()) {
    context = program->contexts.back();
    program->contexts.pop_back();
  }
  if (context == nullptr) {
    context = hl_context_new(program->pool, nullptr);
    if (context == nullptr) return nullptr;
    hl_context_set_call_sites(context, program->sites.data(),
                              static_cast<int64_t>(program->sites.size()));
  }
  hl_context_set_rng(context, program->random);
  hl_context_set_feeds(context, program->infeed, program->outfeed, -1);
  context->device = 0;
  context->user = nullptr;
  hloom::of(context)->user_data = nullptr;
  hloom::of(context)->transfers = &program->transfers;
  return context;
}

HL_API void hl_program_put_back(hl_program* program, hl_context* context) {
  std::unique_lock guard(program->lock, std::try_to_lock);
  if (guard.owns_lock()) program->contexts.push_back(context);
  else hl_context_free(context);
}

HL_API hl_queue* hl_program_infeed(hl_program* program, int64_t device) {
  return device == 0 ? program->infeed : hloom::queue_of(program, program->infeeds, device);
}

HL_API hl_queue* hl_program_outfeed(hl_program* program, int64_t device) {
  return device == 0 ? program->outfeed : hloom::queue_of(program, program->outfeeds, device);
}

HL_API void* hl_program_symbol(const hl_program* program, const char* name) {
  return program->code == nullptr ? nullptr : hl_symbol(program->code, name);
}

HL_API int64_t hl_program_code_bytes(const hl_program* program) {
  return program->code == nullptr ? 0 : hl_loaded_size(program->code);
}

HL_API const void* hl_program_constant(const hl_program* program, int64_t allocation) {
  bool is_there = allocation >= 0 && allocation < static_cast<int64_t>(program->fixed.size());
  return is_there ? program->fixed[allocation] : nullptr;
}

HL_API void** hl_program_call_state(hl_program* program, int64_t index) {
  bool is_there = index >= 0 && index < static_cast<int64_t>(program->sites.size());
  return is_there ? &program->sites[index].state : nullptr;
}
