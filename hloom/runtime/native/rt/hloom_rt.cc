// Saved programs for C programs: loaded, described, and where every allocation stands during a run
// (run.cc): the caller lends all memory. execution.cc does so for hosts that have buffers.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <new>

#include "../joined.h"
#include "program.h"
#include "routines.h"

namespace {

using hloom::rt::kTempAlignment;
using hloom::rt::Place;
using hloom::rt::Stands;
using hloom::rt::told;

// What handlers of custom calls may count on, as in XLA.
constexpr size_t kHandlerAlignment = 16;
// Outputs from here on may be written past the caches (execution.cc).
constexpr int64_t kStreamedBytes = int64_t{1} << 24;

// What the code of a program asks of an array: a multiple of its elements' bytes, of which the text
// tells the bits: `bf16[4]`, `c64[]`, `f8e4m3fn[2]`, `pred[9]`.
size_t alignment_of(const std::string& text) {
  size_t digits = text.find_first_of("0123456789[");
  if (digits == std::string::npos) return kHandlerAlignment;
  size_t bits = strtoul(text.c_str() + digits, nullptr, 10) / (text[0] == 'c' ? 2 : 1);
  return bits >= 64 ? 8 : bits >= 8 ? bits / 8 : 1;
}

int64_t number_of(const std::vector<std::string>& names, const char* name) {
  for (size_t k = 0; k < names.size(); ++k)
    if (names[k] == name) return static_cast<int64_t>(k);
  return -1;
}

}  // namespace

int32_t hloom::rt::told(int32_t status, std::string words, char* error, size_t size) {
  // A damaged name may have anything in it; words end where they end.
  for (char& c : words)
    if (c == 0) c = '?';
  if (error != nullptr && size > 0) snprintf(error, size, "%s", words.c_str());
  return status;
}

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
  auto alignment_in = [&](const std::string& text) {
    return core->sites.empty() ? alignment_of(text) : kHandlerAlignment;
  };
  for (size_t k = 0; k < input_texts.size(); ++k)
    inputs.push_back({input_names[k].c_str(), input_texts[k].c_str(),
                      static_cast<size_t>(core->arguments[k].size_bytes),
                      alignment_in(input_texts[k]), -1});
  for (size_t k = 0; k < output_results.size(); ++k) {
    const hl_program::Result& r = core->results[output_results[k]];
    size_t alignment =
        r.size_bytes >= kStreamedBytes ? kTempAlignment : alignment_in(output_texts[k]);
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
  if (row.replicas < 1 || row.partitions < 1 ||
      row.partitions > hloom::rt::kMostDevices / row.replicas)
    return refused("a saved program is malformed");
  program->replicas = row.replicas;
  program->partitions = row.partitions;
  program->describe(file);
  program->place();
  return program.release();
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
    told(0, hloom::joined({"cannot read ", path, ": ", words}), error, error_size);
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

int64_t hloom_rt_replica_count(const hloom_rt_program* program) { return program->replicas; }
int64_t hloom_rt_partition_count(const hloom_rt_program* program) { return program->partitions; }

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

int32_t hloom_rt_register(const char* target, hl_handler handler, void* user) {
  return hl_custom_call_register(target, handler, user, 1 << HL_STAGE_EXECUTE);
}

}  // extern "C"
