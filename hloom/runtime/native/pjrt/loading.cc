// Saved executables (hloom/plugin/saved.py), made ready to run without Python.
//
// Their last part (hloom/runtime/pjrt_saved.py) says in plain numbers what Python would say of the
// program: where its code and constants stand in the file, its arrays, its custom calls. Bytes are
// not trusted to be whole: every read is bounded, and code and constants have a checksum.
#include "loading.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <deque>
#include <string_view>

#include "../container.h"
#include "../processor.h"

struct hl_loaded;
HL_API hl_loaded* hl_load_objects(const void* const* objects, const int64_t* sizes,
                                  const char* const* names, int64_t count, int64_t machine,
                                  const char* const* external_names,
                                  void* const* external_addresses, const int8_t* external_is_data,
                                  int64_t external_count, char* message, int64_t message_size);
HL_API void* hl_symbol(const hl_loaded* loaded, const char* name);
HL_API void hl_unload(hl_loaded* loaded);
HL_API hl_pool* hl_pool_new(int32_t threads);
HL_API hl_rng* hl_rng_new();
HL_API void hl_rng_free(hl_rng* rng);
HL_API hl_queue* hl_queue_new(int64_t capacity);
HL_API void hl_queue_free(hl_queue* queue);
HL_API int32_t hl_abi_version();
HL_API hl_context* hl_context_new(hl_pool* pool, hl_arena* arena);
HL_API void hl_context_free(hl_context* context);
HL_API const char* hl_context_message(hl_context* context);

namespace hloom::pjrt {
namespace {

constexpr std::string_view kMagic = "hloomjax";
constexpr int64_t kVersion = 3;
// The parts, as hloom/plugin/saved.py and hloom/program/saved.py order and count them.
constexpr ContainerKind kExecutable{kMagic, 2, 6, "saved executable"};
constexpr ContainerKind kProgram{"hloomprg", 4, 4, "saved program"};
constexpr size_t kProgramPart = 2, kRegionsPart = 4, kNativePart = 5;
constexpr int64_t kFeedCapacity = 1 << 16;
constexpr int64_t kMostAllocations = 1 << 24;

// Reads numbers and texts; what is not there is 0 or empty, and makes `is_whole` false.
struct Reader {
  const char* at;
  const char* end;
  bool is_whole = true;

  bool has(int64_t size) {
    if (size >= 0 && size <= end - at) return true;
    is_whole = false;
    return false;
  }
  int64_t number() {
    int64_t value = 0;
    if (has(8)) {
      memcpy(&value, at, 8);
      at += 8;
    }
    return value;
  }
  // How many things of at least 8 bytes follow.
  int64_t count() {
    int64_t value = number();
    if (value >= 0 && value <= (end - at) / 8) return value;
    is_whole = false;
    return 0;
  }
  std::string text() {
    int64_t size = number();
    if (!has(size)) return {};
    std::string made(at, size);
    at += size;
    return made;
  }
  std::vector<int64_t> numbers() {
    std::vector<int64_t> made(count());
    for (int64_t& value : made) value = number();
    return made;
  }
};

// What a program stands on. Deques: what is in them is pointed to.
struct Loaded {
  hl_loaded* code = nullptr;
  hl_rng* random = hl_rng_new();
  hl_queue* infeed = hl_queue_new(kFeedCapacity);
  hl_queue* outfeed = hl_queue_new(kFeedCapacity);
  std::vector<void*> constants;
  std::vector<hl_call_site> sites;
  std::deque<std::vector<hl_call_buffer>> buffers;
  std::deque<std::vector<hl_attribute>> attributes;
  std::deque<std::vector<int64_t>> numbers;
  std::deque<std::string> texts;

  ~Loaded() {
    hl_call_sites_end(sites.data(), static_cast<int64_t>(sites.size()));
    if (code != nullptr) hl_unload(code);
    if (random != nullptr) hl_rng_free(random);
    if (infeed != nullptr) hl_queue_free(infeed);
    if (outfeed != nullptr) hl_queue_free(outfeed);
    for (void* block : constants) hl_arena_free(nullptr, block);
  }
  const std::vector<int64_t>& keep(std::vector<int64_t> made) {
    return numbers.emplace_back(std::move(made));
  }
  const std::string& keep(std::string made) { return texts.emplace_back(std::move(made)); }
};

// The pool of all programs that are loaded so: as many threads as the process may use.
hl_pool* shared_pool() {
  static hl_pool* pool = [] {
    cpu_set_t set;
    int threads = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    if (FILE* file = fopen("/sys/fs/cgroup/cpu.max", "r")) {
      long quota = 0, period = 0;
      if (fscanf(file, "%ld %ld", &quota, &period) == 2 && period > 0 && quota / period < threads)
        threads = static_cast<int>(quota / period);
      fclose(file);
    }
    return hl_pool_new(threads < 1 ? 1 : threads);
  }();
  return pool;
}

PJRT_Error* malformed(const std::string& what) {
  return failuref(PJRT_Error_Code_INVALID_ARGUMENT, "%s [saved-executable]", what.c_str());
}

PJRT_Error* no_memory() {
  return failure(PJRT_Error_Code_RESOURCE_EXHAUSTED,
                 "no memory to load a saved executable in [out-of-memory]");
}

// Links the code; ranges of it are within `program`.
PJRT_Error* load_code(Reader* in, std::string_view program, Loaded* held) {
  std::vector<const void*> objects;
  std::vector<int64_t> sizes;
  for (int64_t k = in->count(); k > 0; --k) {
    int64_t at = in->number(), size = in->number();
    int64_t room = static_cast<int64_t>(program.size());
    if (at < 0 || size < 0 || at > room || size > room - at)
      return malformed("the code of a saved executable is damaged");
    objects.push_back(program.data() + at);
    sizes.push_back(size);
  }
  char message[4096] = "";
  held->code =
      hl_load_objects(objects.data(), sizes.data(), nullptr, static_cast<int64_t>(objects.size()),
                      0, nullptr, nullptr, nullptr, 0, message, sizeof(message));
  if (held->code != nullptr) return nullptr;
  return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                  "the code of a saved executable cannot be loaded: %s [object-load]", message);
}

// Copies constants out of the file, whose memory is the caller's.
PJRT_Error* load_constants(Reader* in, std::string_view program, Loaded* held,
                           std::vector<void*>* fixed) {
  for (int64_t k = in->count(); k > 0; --k) {
    int64_t index = in->number(), at = in->number(), size = in->number();
    int64_t room = static_cast<int64_t>(program.size());
    if (index < 0 || index >= static_cast<int64_t>(fixed->size()) || at < 0 || size < 0 ||
        at > room || size > room - at || (*fixed)[index] != nullptr)
      return malformed("a constant of a saved executable is damaged");
    void* block = hl_arena_alloc(nullptr, size);
    if (block == nullptr) return no_memory();
    held->constants.push_back(block);
    memcpy(block, program.data() + at, size);
    (*fixed)[index] = block;
  }
  return nullptr;
}

const std::vector<hl_attribute>& read_attributes(Reader* in, Loaded* held, int depth = 0) {
  auto& made = held->attributes.emplace_back();
  int64_t count = in->count();
  if (depth > 16) in->is_whole = false;
  for (int64_t k = 0; k < count && in->is_whole; ++k) {
    const std::string& name = held->keep(in->text());
    hl_attribute a{name.data(), static_cast<int64_t>(name.size()), in->number(), 0, 0, nullptr};
    a.dtype = in->number();
    a.count = in->number();
    if (a.kind == HL_ATTRIBUTE_DICTIONARY) {
      const auto& entries = read_attributes(in, held, depth + 1);
      a.count = static_cast<int64_t>(entries.size());
      a.data = entries.data();
    } else {
      a.data = held->keep(in->text()).data();
    }
    made.push_back(a);
  }
  return made;
}

const std::vector<hl_call_buffer>& read_buffers(Reader* in, Loaded* held) {
  auto& made = held->buffers.emplace_back();
  for (int64_t k = in->count(); k > 0; --k) {
    hl_call_buffer b{};
    b.dtype = in->number();
    const auto& dims = held->keep(in->numbers());
    b.rank = static_cast<int64_t>(dims.size());
    b.dims = dims.data();
    b.allocation = in->number();
    b.offset = in->number();
    made.push_back(b);
  }
  return made;
}

// Custom calls, with the handlers that this process has.
PJRT_Error* load_sites(Reader* in, Loaded* held) {
  int64_t count = in->count();
  for (int64_t k = 0; k < count && in->is_whole; ++k) {
    hl_call_site site{};
    std::string target = in->text();
    site.name = held->keep(in->text()).c_str();
    site.call = hl_custom_call_find(target.c_str());
    if (site.call == nullptr && in->is_whole)
      return failuref(PJRT_Error_Code_NOT_FOUND,
                      "no handler is registered for custom calls to '%s' (%s); without Python, the "
                      "FFI extension of this plugin registers one [custom-call-handler]",
                      target.c_str(), site.name);
    const auto& operands = read_buffers(in, held);
    const auto& results = read_buffers(in, held);
    const auto& attributes = read_attributes(in, held);
    site.operand_count = static_cast<int64_t>(operands.size());
    site.operands = operands.data();
    site.result_count = static_cast<int64_t>(results.size());
    site.results = results.data();
    site.attribute_count = static_cast<int64_t>(attributes.size());
    site.attributes = attributes.data();
    held->sites.push_back(site);
  }
  if (held->sites.empty() || !in->is_whole) return nullptr;
  hl_context* context = hl_context_new(shared_pool(), nullptr);
  if (context == nullptr) return no_memory();
  int32_t status = hl_call_sites_instantiate(context, held->sites.data(), count);
  PJRT_Error* error = status == HL_OK ? nullptr : failure(status, hl_context_message(context));
  hl_context_free(context);
  return error;
}

// An argument or a result: they differ in what one field means.
template <typename To>
std::vector<To> read_arrays(Reader* in, Loaded* held, int64_t To::* second) {
  std::vector<To> made;
  for (int64_t k = in->count(); k > 0 && in->is_whole; --k) {
    To array{};
    array.allocation = in->number();
    array.*second = in->number();
    array.type = in->number();
    const auto& dims = held->keep(in->numbers());
    array.rank = static_cast<int64_t>(dims.size());
    array.dims = dims.data();
    array.memory_kind = in->number();
    const std::string& sharding = held->keep(in->text());
    array.sharding = sharding.data();
    array.sharding_size = static_cast<int64_t>(sharding.size());
    const auto& whole = held->keep(in->numbers());
    const auto& offsets = held->keep(in->numbers());
    if (!whole.empty() || !offsets.empty()) {
      array.whole = whole.data();
      array.offsets = offsets.data();
      if (whole.size() != dims.size()) in->is_whole = false;
    }
    const std::string& layout = held->keep(in->text());
    if (!layout.empty()) array.layout = layout.c_str();
    auto type = static_cast<PJRT_Buffer_Type>(is_type(array.type) ? array.type : 0);
    auto can_be = [&](const std::vector<int64_t>& sizes) {
      return has_size(type, sizes.data(), static_cast<int64_t>(sizes.size()));
    };
    if (!is_type(array.type) || !can_be(dims) || !can_be(whole) || array.memory_kind < 0 ||
        array.memory_kind >= kMemoryKinds || dims.size() > static_cast<size_t>(kMostRank))
      in->is_whole = false;
    if (!layout.empty() && layout_of(layout, array.rank) == nullptr) in->is_whole = false;
    made.push_back(array);
  }
  return made;
}

// Whether the shards of every array have a place for each device.
template <typename Given>
bool fit_devices(const std::vector<Given>& arrays, const Loaded& held, int64_t devices) {
  for (const Given& a : arrays) {
    if (a.offsets == nullptr) continue;
    bool fits = false;
    for (const auto& numbers : held.numbers)
      fits |=
          numbers.data() == a.offsets && static_cast<int64_t>(numbers.size()) == a.rank * devices;
    if (!fits) return false;
  }
  return true;
}

PJRT_Error* load_regions(Reader* in, std::string_view regions, std::vector<Program*>* made) {
  for (int64_t size : in->numbers()) {
    if (size < 0 || static_cast<size_t>(size) > regions.size())
      return malformed("the regions of a saved executable are cut off");
    Program* region = nullptr;
    if (PJRT_Error* error = program_in(regions.data(), size, &region)) return error;
    made->push_back(region);
    regions.remove_prefix(size);
  }
  if (!regions.empty()) return malformed("the regions of a saved executable are more than it says");
  return nullptr;
}

// The facts of a program, with what they point to.
struct Facts {
  std::string name, fingerprint, entry;
  std::vector<void*> fixed;
  std::vector<hl_pjrt_block> blocks;
  std::vector<hl_pjrt_argument> arguments;
  std::vector<hl_pjrt_result> results;
  std::vector<int64_t> devices;
  hl_pjrt_program raw{};
};

// What a block holds at least: a region computes shards, other programs whole arrays.
int64_t bytes_of_result(const hl_pjrt_result& r) {
  return bytes_of(static_cast<PJRT_Buffer_Type>(r.type), r.dims, r.rank);
}

// Whether shards lie in their whole arrays.
template <typename Given>
bool lie_inside(const std::vector<Given>& arrays, int64_t devices) {
  for (const Given& a : arrays)
    for (int64_t k = 0; a.offsets != nullptr && k < a.rank * devices; ++k) {
      int64_t d = k % a.rank, begin = a.offsets[k];
      if (begin < 0 || begin > a.whole[d] || a.dims[d] > a.whole[d] - begin) return false;
    }
  return true;
}

// Whether the program can be run on the devices that it names: on as many as it is for.
bool names_devices(const Facts& facts) {
  int64_t named = static_cast<int64_t>(facts.devices.size());
  bool all = named == facts.raw.replica_count * facts.raw.partition_count;
  bool is_cut = false;
  for (const auto& a : facts.arguments) is_cut |= a.offsets != nullptr;
  for (const auto& r : facts.results) is_cut |= r.offsets != nullptr;
  return (all || named == 0) && (!is_cut || facts.raw.partition_count > 1);
}

// Whether everything of the program stands in one of its allocations, or, where it may, in none.
bool stand_somewhere(const Facts& facts, const Loaded& held) {
  auto fits = [&](int64_t index) { return index >= -1 && index < facts.raw.allocation_count; };
  bool all = true;
  for (const auto& b : facts.blocks)
    all &= b.allocation >= 0 && fits(b.allocation) && b.size_bytes >= 0;
  for (const auto& a : facts.arguments) all &= fits(a.allocation);
  for (const auto& r : facts.results) {
    all &= fits(r.allocation) && r.offset >= 0;
    for (const auto& b : facts.blocks)
      if (b.allocation == r.allocation && r.allocation >= 0)
        all &= r.offset <= b.size_bytes && bytes_of_result(r) <= b.size_bytes - r.offset;
  }
  for (const auto& buffers : held.buffers)
    for (const auto& b : buffers) all &= fits(b.allocation) && b.offset >= 0;
  return all;
}

PJRT_Error* read_facts(Reader* in, std::string_view program, Loaded* held, Facts* facts) {
  hl_pjrt_program& raw = facts->raw;
  facts->name = in->text();
  facts->fingerprint = in->text();
  facts->entry = in->text();
  if (PJRT_Error* error = load_code(in, program, held)) return error;
  raw.allocation_count = in->number();
  if (raw.allocation_count < 0 || raw.allocation_count > kMostAllocations) in->is_whole = false;
  if (!in->is_whole) return malformed("a saved executable is malformed");
  facts->fixed.resize(raw.allocation_count);
  if (PJRT_Error* error = load_constants(in, program, held, &facts->fixed)) return error;
  for (int64_t k = in->count(); k > 0; --k) {
    int64_t index = in->number(), size = in->number();
    facts->blocks.push_back({index, size, in->number()});
  }
  facts->arguments = read_arrays(in, held, &hl_pjrt_argument::flags);
  facts->results = read_arrays(in, held, &hl_pjrt_result::offset);
  raw.replica_count = in->number();
  raw.partition_count = in->number();
  facts->devices = in->numbers();
  raw.expected_ns = -1;
  raw.calls_host = in->number();
  raw.is_portable = in->number();
  raw.code_bytes = in->number();
  raw.temporary_bytes = in->number();
  raw.alias_bytes = in->number();
  constexpr int64_t kMost = 4096;
  if (raw.replica_count < 1 || raw.replica_count > kMost || raw.partition_count < 1 ||
      raw.partition_count > kMost)
    in->is_whole = false;
  if (!in->is_whole) return malformed("a saved executable is malformed");
  if (PJRT_Error* error = load_sites(in, held)) return error;
  bool fits = stand_somewhere(*facts, *held) &&
              fit_devices(facts->arguments, *held, raw.partition_count) &&
              fit_devices(facts->results, *held, raw.partition_count) && names_devices(*facts) &&
              lie_inside(facts->arguments, raw.partition_count) &&
              lie_inside(facts->results, raw.partition_count);
  return in->is_whole && fits ? nullptr : malformed("a saved executable is malformed");
}

// The program of these facts, which from here on owns what it stands on.
Program* taken_over(Facts* facts, std::unique_ptr<Loaded> held) {
  hl_pjrt_program& raw = facts->raw;
  raw.name = facts->name.c_str();
  raw.fingerprint = facts->fingerprint.c_str();
  raw.pool = shared_pool();
  raw.random = held->random;
  raw.infeed = held->infeed;
  raw.outfeed = held->outfeed;
  raw.sites = held->sites.empty() ? nullptr : held->sites.data();
  raw.site_count = static_cast<int64_t>(held->sites.size());
  raw.fixed = facts->fixed.data();
  raw.block_count = static_cast<int64_t>(facts->blocks.size());
  raw.blocks = facts->blocks.data();
  raw.argument_count = static_cast<int64_t>(facts->arguments.size());
  raw.arguments = facts->arguments.data();
  raw.result_count = static_cast<int64_t>(facts->results.size());
  raw.results = facts->results.data();
  raw.device_count = static_cast<int64_t>(facts->devices.size());
  raw.devices = facts->devices.data();
  raw.handle = -static_cast<int64_t>(reinterpret_cast<intptr_t>(held.release()));
  hl_pjrt_reply reply;
  hl_pjrt_reply_program(&reply, &raw);
  return reply.program;
}

// A program whose parts are whole.
PJRT_Error* program_of(const std::vector<std::string_view>& parts, Program** program) {
  Reader in{parts[kNativePart].data(), parts[kNativePart].data() + parts[kNativePart].size()};
  int64_t version = in.number(), abi = in.number();
  if (!in.is_whole || version != kVersion || abi != hl_abi_version())
    return malformed("a saved executable is of another version of hloom; compile it again");
  std::string architecture = in.text(), features = in.text();
  if (!in.is_whole) return malformed("a saved executable is malformed");
  if (std::string missing = missing_features(architecture, features); !missing.empty())
    return failuref(PJRT_Error_Code_FAILED_PRECONDITION,
                    "a saved executable is for processors with %s, which this one has not; compile "
                    "it again, with cpu_max_isa for older ones [processor]",
                    missing.c_str());
  auto held = std::make_unique<Loaded>();
  Facts facts;
  if (PJRT_Error* error = read_facts(&in, parts[kProgramPart], held.get(), &facts)) return error;
  void* entry = hl_symbol(held->code, facts.entry.c_str());
  if (entry == nullptr) return malformed("a saved executable has no code to begin with");
  facts.raw.entry = reinterpret_cast<hl_main_function>(entry);
  if (shared_pool() == nullptr) return no_memory();
  std::vector<Program*> regions;
  if (PJRT_Error* error = load_regions(&in, parts[kRegionsPart], &regions)) {
    for (Program* region : regions) release(region);
    return error;
  }
  *program = taken_over(&facts, std::move(held));
  (*program)->regions = std::move(regions);
  return nullptr;
}

// The bytes behind the message that jaxlib puts before what `serialize` gives: its length, itself.
std::string_view without_message(std::string_view saved) {
  size_t length = 0;
  for (size_t at = 0; at < saved.size() && at < 5; ++at) {
    length |= static_cast<size_t>(saved[at] & 0x7f) << 7 * at;
    if (saved[at] & 0x80) continue;
    if (length > saved.size() - at - 1) break;
    std::string_view rest = saved.substr(at + 1 + length);
    return rest.starts_with(kMagic) ? rest : saved;
  }
  return saved;
}

}  // namespace

PJRT_Error* program_in(const char* given, size_t given_size, Program** program) {
  std::string problem;
  auto parts = open_container(without_message({given, given_size}), kExecutable, &problem);
  if (parts.empty()) return malformed(problem);
  if (open_container(parts[kProgramPart], kProgram, &problem).empty()) return malformed(problem);
  return program_of(parts, program);
}

void free_loaded(int64_t handle) {
  delete reinterpret_cast<Loaded*>(static_cast<intptr_t>(-handle));
}

}  // namespace hloom::pjrt
