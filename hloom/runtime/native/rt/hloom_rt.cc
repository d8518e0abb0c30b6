// Saved programs for C programs: where every allocation stands during a run is decided here, as the
// caller lends all memory; execution.cc does so for hosts that have buffers.
#include "../hloom_rt.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "../context.h"
#include "../loaded_program.h"
#include "../saved.h"
#include "routines.h"

namespace {

constexpr size_t kTempAlignment = 64;
// Of inputs and outputs; outputs from 16 MiB on may be written past the caches (execution.cc).
constexpr size_t kAlignment = 16;
constexpr int64_t kStreamedBytes = int64_t{1} << 24;

// Where an allocation stands in a run.
enum class Stands : uint8_t { kFixed, kInput, kOutput, kTemp, kNowhere };
struct Place {
  Stands where = Stands::kNowhere;
  size_t at = 0;  // the number of an input or output; a byte of the temporary memory
};
// What is brought to where it may be written before a run.
struct CopyIn {
  size_t input;
  int64_t allocation, size_bytes;
};
// What is brought to an output after it.
struct CopyOut {
  int64_t allocation, offset;
  size_t output;
  int64_t size_bytes;
};

int64_t number_of(const std::vector<std::string>& names, const char* name) {
  for (size_t k = 0; k < names.size(); ++k)
    if (names[k] == name) return static_cast<int64_t>(k);
  return -1;
}

int32_t told(int32_t status, std::string words, char* error, size_t size) {
  // A damaged name may have anything in it; words end where they end.
  for (char& c : words)
    if (c == 0) c = '?';
  if (error != nullptr && size > 0) snprintf(error, size, "%s", words.c_str());
  return status;
}

}  // namespace

struct hloom_rt_program {
  hl_program* core = nullptr;
  hl_pool* pool = nullptr;
  void* mapped = nullptr;
  size_t mapped_bytes = 0;
  std::vector<std::string> input_texts, output_texts, input_names, output_names;
  std::vector<hloom_rt_shape> inputs, outputs;
  std::vector<size_t> output_results;  // the result of the core that each output is
  std::vector<Place> places;           // by allocation
  std::vector<CopyIn> copies_in;
  std::vector<CopyOut> copies_out;
  size_t temp_bytes = 0;

  ~hloom_rt_program() {
    if (core != nullptr) hl_program_release(core);
    if (pool != nullptr) hl_pool_free(pool);
    if (mapped != nullptr) munmap(mapped, mapped_bytes);
  }
  size_t room(int64_t size_bytes) {
    size_t at = (temp_bytes + kTempAlignment - 1) / kTempAlignment * kTempAlignment;
    temp_bytes = at + static_cast<size_t>(size_bytes);
    return at;
  }
  void describe(const hloom::saved::File& file);
  void place();
};

struct hloom_rt_started {
  hloom_rt_program* program;
  std::vector<hloom_rt_array> inputs, outputs;
  hloom_rt_array temp;
  hl_context* context;
  pthread_t thread;
  std::atomic<int32_t> is_done{0};
  int32_t status = 0;
};

// Which memory programs take and give, as people write it.
void hloom_rt_program::describe(const hloom::saved::File& file) {
  std::string_view record = file.section(hloom::saved::kProgram);
  std::vector<int64_t> aligned((record.size() + 7) / 8);
  memcpy(aligned.data(), record.data(), record.size());
  hloom::saved::Reader in({reinterpret_cast<const char*>(aligned.data()), record.size()});
  const auto* row = in.first<hloom::saved::Program>();
  const auto* parameters = in.records<hloom::saved::Parameter>(row->parameters);
  const auto* results = in.records<hloom::saved::Result>(row->results);
  // Names are those of whole arguments and results; `.K` behind tells an element of a tuple.
  auto named = [&](hloom::saved::Range names, int64_t number, hloom::saved::Range index,
                   int64_t first) {
    const auto* texts = in.records<hloom::saved::Text>(names);
    bool is_named = texts != nullptr && number >= 0 && number < names.count;
    std::string name = is_named ? std::string(in.text(texts[number].text)) : "";
    const int64_t* numbers = in.numbers(index);
    for (int64_t k = first; numbers != nullptr && k < index.count; ++k)
      name += "." + std::to_string(numbers[k]);
    return name;
  };
  for (int64_t k = 0; k < row->parameters.count; ++k) {
    input_texts.emplace_back(in.text(parameters[k].shape));
    input_names.push_back(named(row->argument_names, parameters[k].number, parameters[k].index, 0));
  }
  for (int64_t k = 0; k < row->results.count; ++k) {
    if (results[k].allocation < 0) continue;  // a token
    output_results.push_back(static_cast<size_t>(k));
    output_texts.emplace_back(in.text(results[k].shape));
    const int64_t* index = in.numbers(results[k].index);
    int64_t number = index != nullptr && results[k].index.count > 0 ? *index : 0;
    output_names.push_back(named(row->result_names, number, results[k].index, 1));
  }
}

// Every allocation stands in what the caller gives wherever that has its very bytes.
void hloom_rt_program::place() {
  places.resize(core->fixed.size());
  for (size_t k = 0; k < core->fixed.size(); ++k)
    if (core->fixed[k] != nullptr) places[k].where = Stands::kFixed;
  for (size_t k = 0; k < input_texts.size(); ++k)
    inputs.push_back({input_names[k].c_str(), input_texts[k].c_str(),
                      static_cast<size_t>(core->arguments[k].size_bytes), kAlignment, -1});
  for (size_t k = 0; k < output_results.size(); ++k) {
    const hl_program::Result& r = core->results[output_results[k]];
    size_t alignment = r.size_bytes >= kStreamedBytes ? kTempAlignment : kAlignment;
    outputs.push_back({output_names[k].c_str(), output_texts[k].c_str(),
                       static_cast<size_t>(r.size_bytes), alignment, -1});
  }
  std::vector<int64_t> sizes(places.size(), 0);
  for (const auto& block : core->blocks) sizes[block.allocation] = block.size_bytes;
  for (const auto& a : core->arguments)
    if (a.allocation >= 0) sizes[a.allocation] = a.size_bytes;
  // An output is the memory of an allocation that it is the whole of, the first that is.
  std::vector<int32_t> output_of(places.size(), -1);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const hl_program::Result& r = core->results[output_results[k]];
    if (r.offset == 0 && r.size_bytes == sizes[r.allocation] && output_of[r.allocation] < 0)
      output_of[r.allocation] = static_cast<int32_t>(k);
  }
  for (size_t k = 0; k < core->arguments.size(); ++k) {
    const hl_program::Argument& a = core->arguments[k];
    if (a.allocation < 0) continue;
    int32_t output = output_of[a.allocation];
    if (!a.is_written) {
      places[a.allocation] = {Stands::kInput, k};
      continue;
    }
    if (output >= 0) {
      places[a.allocation] = {Stands::kOutput, static_cast<size_t>(output)};
      inputs[k].in_place = output;
      outputs[output].in_place = static_cast<int32_t>(k);
    } else {
      places[a.allocation] = {Stands::kTemp, room(a.size_bytes)};
    }
    copies_in.push_back({k, a.allocation, a.size_bytes});
  }
  for (const auto& block : core->blocks) {
    int32_t output = block.is_temporary ? -1 : output_of[block.allocation];
    places[block.allocation] = output >= 0 ? Place{Stands::kOutput, static_cast<size_t>(output)}
                                           : Place{Stands::kTemp, room(block.size_bytes)};
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    const hl_program::Result& r = core->results[output_results[k]];
    const Place& place = places[r.allocation];
    if (place.where != Stands::kOutput || place.at != k)
      copies_out.push_back({r.allocation, r.offset, k, r.size_bytes});
  }
}

namespace {

hloom_rt_program* loaded(const void* data, size_t size, int32_t threads,
                         std::unique_ptr<hloom_rt_program> program, char* error,
                         size_t error_size) {
  auto refused = [&](const std::string& words) {
    told(0, words, error, error_size);
    return nullptr;
  };
  hloom::saved::File file;
  std::string words;
  if (!hloom::saved::open({static_cast<const char*>(data), size}, &file, &words))
    return refused(words);
  program->pool = hl_pool_new(threads < 1 ? 1 : threads);
  if (program->pool == nullptr) return refused("no memory for threads");
  hloom::Problem problem;
  program->core = hloom::load_program(file, program->pool, false, &problem);
  if (program->core == nullptr) {
    std::string lacking = hloom::rt::lacking(problem.text);
    return refused(lacking.empty() ? problem.text : lacking);
  }
  std::string_view record = file.section(hloom::saved::kProgram);
  hloom::saved::Program row;
  memcpy(&row, record.data(), sizeof(row));
  if (row.replicas * row.partitions != 1)
    return refused(program->core->name + " is for several devices, and this runtime has one");
  program->describe(file);
  program->place();
  return program.release();
}

std::string short_array(const char* what, size_t k, const hloom_rt_array& a,
                        const hloom_rt_shape& shape) {
  bool is_aligned = reinterpret_cast<uintptr_t>(a.data) % shape.alignment == 0;
  if (shape.size_bytes == 0 ||
      (a.data != nullptr && a.size_bytes == shape.size_bytes && is_aligned))
    return "";
  char words[256];
  snprintf(words, sizeof(words), "%s %zu is %zu bytes at %p; %s takes %zu at a multiple of %zu",
           what, k, a.size_bytes, a.data, shape.text, shape.size_bytes, shape.alignment);
  return words;
}

std::string misfit(const hloom_rt_program& p, const hloom_rt_array* inputs,
                   const hloom_rt_array* outputs, const hloom_rt_array& temp) {
  std::string words;
  for (size_t k = 0; k < p.inputs.size() && words.empty(); ++k)
    words = short_array("input", k, inputs[k], p.inputs[k]);
  for (size_t k = 0; k < p.outputs.size() && words.empty(); ++k)
    words = short_array("output", k, outputs[k], p.outputs[k]);
  if (!words.empty() || p.temp_bytes == 0) return words;
  if (temp.data == nullptr || temp.size_bytes < p.temp_bytes ||
      reinterpret_cast<uintptr_t>(temp.data) % kTempAlignment != 0) {
    char text[160];
    snprintf(text, sizeof(text),
             "temporary memory is %zu bytes at %p; %zu at a multiple of %zu are"
             " needed",
             temp.size_bytes, temp.data, p.temp_bytes, kTempAlignment);
    return text;
  }
  return "";
}

int32_t run(hloom_rt_program& p, hl_context* context, const hloom_rt_array* inputs,
            const hloom_rt_array* outputs, const hloom_rt_array& temp) {
  constexpr size_t kFew = 256;
  void* few[kFew];
  std::vector<void*> many(p.places.size() > kFew ? p.places.size() : 0);
  void** table = many.empty() ? few : many.data();
  for (size_t k = 0; k < p.places.size(); ++k) {
    const Place& place = p.places[k];
    switch (place.where) {
      case Stands::kFixed:
        table[k] = p.core->fixed[k];
        break;
      case Stands::kInput:
        table[k] = inputs[place.at].data;
        break;
      case Stands::kOutput:
        table[k] = outputs[place.at].data;
        break;
      case Stands::kTemp:
        table[k] = static_cast<char*>(temp.data) + place.at;
        break;
      case Stands::kNowhere:
        table[k] = nullptr;
    }
  }
  for (const CopyIn& c : p.copies_in) {
    void* to = table[c.allocation];
    if (c.size_bytes > 0 && to != inputs[c.input].data)
      memcpy(to, inputs[c.input].data, static_cast<size_t>(c.size_bytes));
  }
  int32_t status = hl_execute(context, p.core->entry, table);
  if (status != HL_OK) return status;
  for (const CopyOut& c : p.copies_out)
    if (c.size_bytes > 0)
      memmove(outputs[c.output].data, static_cast<char*>(table[c.allocation]) + c.offset,
              static_cast<size_t>(c.size_bytes));
  return HL_OK;
}

void* in_thread(void* argument) {
  auto* each = static_cast<hloom_rt_started*>(argument);
  each->status =
      run(*each->program, each->context, each->inputs.data(), each->outputs.data(), each->temp);
  each->is_done.store(1, std::memory_order_release);
  return nullptr;
}

}  // namespace

extern "C" {

hloom_rt_program* hloom_rt_load_bytes(const void* data, size_t size_bytes, int32_t threads,
                                      char* error, size_t error_size) {
  auto program = std::unique_ptr<hloom_rt_program>(new (std::nothrow) hloom_rt_program);
  if (program == nullptr) {
    told(0, "no memory to load a program in", error, error_size);
    return nullptr;
  }
  return loaded(data, size_bytes, threads, std::move(program), error, error_size);
}

hloom_rt_program* hloom_rt_load(const char* path, int32_t threads, char* error, size_t error_size) {
  auto refused = [&](const char* words) -> hloom_rt_program* {
    told(0, std::string("cannot read ") + path + ": " + words, error, error_size);
    return nullptr;
  };
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return refused(strerror(errno));
  struct stat about;
  bool is_file = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  size_t size = is_file ? static_cast<size_t>(about.st_size) : 0;
  void* data = size > 0 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  close(file);
  if (!is_file) return refused("it is no file");
  if (size == 0) return refused("it is empty");
  if (data == MAP_FAILED) return refused(strerror(errno));
  auto program = std::unique_ptr<hloom_rt_program>(new (std::nothrow) hloom_rt_program);
  if (program == nullptr) {
    munmap(data, size);
    return refused("no memory");
  }
  program->mapped = data;
  program->mapped_bytes = size;
  return loaded(data, size, threads, std::move(program), error, error_size);
}

void hloom_rt_free(hloom_rt_program* program) { delete program; }

const char* hloom_rt_name(const hloom_rt_program* program) { return program->core->name.c_str(); }
size_t hloom_rt_input_count(const hloom_rt_program* program) { return program->inputs.size(); }
size_t hloom_rt_output_count(const hloom_rt_program* program) { return program->outputs.size(); }
size_t hloom_rt_temp_bytes(const hloom_rt_program* program) { return program->temp_bytes; }

hloom_rt_shape hloom_rt_input(const hloom_rt_program* program, size_t number) {
  if (number < program->inputs.size()) return program->inputs[number];
  return {nullptr, nullptr, 0, 1, -1};
}

hloom_rt_shape hloom_rt_output(const hloom_rt_program* program, size_t number) {
  if (number < program->outputs.size()) return program->outputs[number];
  return {nullptr, nullptr, 0, 1, -1};
}

int64_t hloom_rt_input_number(const hloom_rt_program* program, const char* name) {
  return number_of(program->input_names, name);
}

int64_t hloom_rt_output_number(const hloom_rt_program* program, const char* name) {
  return number_of(program->output_names, name);
}

int32_t hloom_rt_run(hloom_rt_program* program, const hloom_rt_array* inputs,
                     const hloom_rt_array* outputs, hloom_rt_array temp, char* error,
                     size_t error_size) {
  std::string words = misfit(*program, inputs, outputs, temp);
  if (!words.empty()) return told(HL_INVALID_ARGUMENT, words, error, error_size);
  hl_context* context = hl_program_context(program->core);
  if (context == nullptr)
    return told(HL_RESOURCE_EXHAUSTED, "no memory for a run", error, error_size);
  int32_t status = run(*program, context, inputs, outputs, temp);
  if (status != HL_OK) told(status, hl_context_message(context), error, error_size);
  hl_program_put_back(program->core, context);
  return status;
}

hloom_rt_started* hloom_rt_start(hloom_rt_program* program, const hloom_rt_array* inputs,
                                 const hloom_rt_array* outputs, hloom_rt_array temp, char* error,
                                 size_t error_size) {
  std::string words = misfit(*program, inputs, outputs, temp);
  auto* run = words.empty() ? new (std::nothrow) hloom_rt_started : nullptr;
  hl_context* context = run != nullptr ? hl_program_context(program->core) : nullptr;
  if (context == nullptr) {
    delete run;
    told(0, words.empty() ? "no memory for a run" : words, error, error_size);
    return nullptr;
  }
  run->program = program;
  run->inputs.assign(inputs, inputs + program->inputs.size());
  run->outputs.assign(outputs, outputs + program->outputs.size());
  run->temp = temp;
  run->context = context;
  if (int failed = pthread_create(&run->thread, nullptr, in_thread, run); failed != 0) {
    hl_program_put_back(program->core, context);
    delete run;
    told(0, std::string("no thread for a run: ") + strerror(failed), error, error_size);
    return nullptr;
  }
  return run;
}

int32_t hloom_rt_is_done(const hloom_rt_started* run) {
  return run->is_done.load(std::memory_order_acquire);
}

void hloom_rt_cancel(hloom_rt_started* run) { hl_cancel(run->context); }

int32_t hloom_rt_wait(hloom_rt_started* run, char* error, size_t error_size) {
  pthread_join(run->thread, nullptr);
  int32_t status = run->status;
  if (status != HL_OK) told(status, hl_context_message(run->context), error, error_size);
  // Whoever cancelled it came too late, perhaps.
  __atomic_store_n(&run->context->cancel, 0, __ATOMIC_RELAXED);
  hl_program_put_back(run->program->core, run->context);
  delete run;
  return status;
}

int32_t hloom_rt_register(const char* target, hl_handler handler, void* user) {
  return hl_custom_call_register(target, handler, user, 1 << HL_STAGE_EXECUTE);
}

}  // extern "C"
