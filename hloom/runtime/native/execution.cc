// Runs programs.
#include "execution.h"

#include <string.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "context.h"
#include "devices.h"
#include "guard.h"
#include "launch.h"

namespace hloom {
namespace {

// Of arguments: the widest type of an element.
constexpr uintptr_t kAlignment = 16;
// From this size on what is written may be written past the caches, which needs full alignment
// (hloom/program/slice.py).
constexpr int64_t kStreamedBytes = int64_t{1} << 24;
constexpr uintptr_t kFullAlignment = 64;

bool is_at(const void* data, uintptr_t alignment) {
  return reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

// Whether a program may write an array of this size where it stands.
bool may_be_written(const void* data, int64_t size) {
  if (guarding && hl_guard_size(data) < 0) return false;
  return size < kStreamedBytes || is_at(data, kFullAlignment);
}

// 1,234,567
std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

}  // namespace

Execution::Execution(hl_program& program, hl_argument* arguments, hl_result* results)
    : program_(program), arguments_(arguments), results_(results) {
  size_t count = program.fixed.size();
  if (count > kFewAllocations) many_.resize(count);
  table_ = count > kFewAllocations ? many_.data() : few_;
  std::copy_n(program.fixed.data(), count, table_);
}

Execution::~Execution() {
  for (const StandIn& each : stand_ins_)
    if (table_[each.allocation] == each.block) {
      hl_arena_free(nullptr, each.block);
      table_[each.allocation] = nullptr;
    }
  for (size_t k = 0; k < block_count_; ++k) {
    int64_t allocation = program_.blocks[k].allocation;
    if (std::find(given_.begin(), given_.end(), allocation) == given_.end())
      hl_arena_free(nullptr, table_[allocation]);
  }
}

bool Execution::stand_in(int64_t allocation, void* original, int64_t size, bool is_filled,
                         void* goes_back) {
  void* block = this->block(size);
  if (block == nullptr) return false;
  if (is_filled && size > 0) memcpy(block, original, size);
  stand_ins_.push_back({allocation, block, goes_back, size});
  table_[allocation] = block;
  return true;
}

bool Execution::place_argument(size_t k) {
  const hl_program::Argument& argument = program_.arguments[k];
  if (argument.allocation < 0) return true;
  auto [data, block] = arguments_[k];
  int64_t size = argument.size_bytes;
  if (argument.is_written) {
    if (block != nullptr && may_be_written(data, size)) {
      table_[argument.allocation] = data;
      return true;
    }
    return stand_in(argument.allocation, data, size, true, block == nullptr ? nullptr : data);
  }
  if (!guarding && (is_at(data, kAlignment) || size == 0)) {
    table_[argument.allocation] = data;
    return true;
  }
  if (!stand_in(argument.allocation, data, size, true, nullptr)) return false;
  if (guarding) hl_guard_read_only(stand_ins_.back().block, 1);
  return true;
}

// Results that the caller has memory for.
bool Execution::place_result(size_t k, Problem* problem) {
  const hl_program::Result& result = program_.results[k];
  void* data = results_[k].data;
  if (result.source == Source::kWritten && data != arguments_[result.argument].data) {
    *problem = {HL_INVALID_ARGUMENT, "alias",
                "result " + std::to_string(k) + " is returned in the buffer of argument " +
                    std::to_string(result.argument) + ", and has its address",
                nullptr};
    return false;
  }
  if (result.source != Source::kBlock) return true;
  if (may_be_written(data, result.size_bytes)) {
    table_[result.allocation] = data;
    given_.push_back(result.allocation);
    return true;
  }
  given_.push_back(result.allocation);
  if (stand_in(result.allocation, data, result.size_bytes, false, data)) return true;
  out_of_memory(problem);
  return false;
}

int32_t Execution::out_of_memory(Problem* problem) {
  *problem = {
      HL_RESOURCE_EXHAUSTED, "out-of-memory",
      "no memory for a buffer of " + grouped(wanted_bytes_) + " bytes in a run of " + program_.name,
      nullptr};
  return problem->status;
}

void* Execution::block(int64_t size_bytes) {
  wanted_bytes_ = size_bytes;
  return hl_arena_alloc(nullptr, size_bytes);
}

int32_t Execution::place(Problem* problem) {
  for (size_t k = 0; k < program_.results.size(); ++k)
    if (results_[k].data != nullptr && !place_result(k, problem)) return problem->status;
  for (size_t k = 0; k < program_.arguments.size(); ++k)
    if (!place_argument(k)) return out_of_memory(problem);
  for (const hl_program::FreshAllocation& block : program_.blocks) {
    if (given_.empty() ||
        std::find(given_.begin(), given_.end(), block.allocation) == given_.end()) {
      void* memory = this->block(block.size_bytes);
      if (memory == nullptr) return out_of_memory(problem);
      table_[block.allocation] = memory;
    }
    ++block_count_;
  }
  if (guarding) name_blocks();
  return HL_OK;
}

void Execution::name_blocks() {
  for (size_t k = 0; k < program_.fixed.size(); ++k) {
    bool is_named = k < program_.block_names.size();
    hl_guard_name(table_[k], (is_named ? program_.block_names[k] : program_.name).c_str());
  }
}

int32_t Execution::run(hl_context* context, hl_main_function entry) {
  int32_t status = hl_execute(context, entry == nullptr ? program_.entry : entry, table_);
  has_run(status);
  return status;
}

int32_t Execution::run(hl_context* context, const Launch& launch, hl_main_function entry) {
  int32_t status = execute(launch, context, entry == nullptr ? program_.entry : entry, table_);
  has_run(status);
  return status;
}

void Execution::has_run(int32_t status) {
  if (guarding) hl_guard_check(table_, static_cast<int64_t>(program_.fixed.size()));
  if (status != HL_OK) return;
  for (const StandIn& each : stand_ins_)
    if (each.original != nullptr && each.size_bytes > 0)
      memcpy(each.original, each.block, each.size_bytes);
}

void Execution::pass_on(const hl_program::Result& result, hl_result* to) {
  void* base = table_[result.allocation];
  to->data = static_cast<char*>(base) + result.offset;
  to->block = base;
  if (result.source == Source::kWritten) {
    hl_argument& argument = arguments_[result.argument];
    if (argument.block != nullptr && argument.data == base) {
      to->block = argument.block;
      argument.block = nullptr;
    }
  }
  table_[result.allocation] = nullptr;
}

// Copies first, which may fail, then blocks, which are not freed now.
int32_t Execution::hand_out(Problem* problem) {
  size_t count = program_.results.size();
  for (size_t k = 0; k < count; ++k) {
    const hl_program::Result& result = program_.results[k];
    if (result.source != Source::kCopy) continue;
    hl_result& to = results_[k];
    if (to.data == nullptr) {
      to.block = to.data = block(result.size_bytes);
      if (to.data == nullptr) {
        for (size_t other = 0; other < k; ++other)
          hl_arena_free(nullptr, std::exchange(results_[other].block, nullptr));
        return out_of_memory(problem);
      }
    }
    const char* from = static_cast<char*>(table_[result.allocation]) + result.offset;
    if (result.size_bytes > 0) memcpy(to.data, from, result.size_bytes);
  }
  for (size_t k = 0; k < count; ++k) {
    const hl_program::Result& result = program_.results[k];
    if (result.source != Source::kBlock && result.source != Source::kWritten) continue;
    if (results_[k].data == nullptr) pass_on(result, results_ + k);
  }
  return HL_OK;
}

}  // namespace hloom

HL_API int32_t hl_program_run(hl_program* program, hl_context* context, hl_main_function entry,
                              hl_argument* arguments, hl_result* results) {
  hloom::Problem problem;
  hloom::Execution execution(*program, arguments, results);
  int32_t status = execution.place(&problem);
  if (status == HL_OK) {
    hl_context* used = context != nullptr ? context : hl_program_context(program);
    status = used == nullptr ? HL_RESOURCE_EXHAUSTED : execution.run(used, entry);
    if (status != HL_OK)
      problem = {status, "", used == nullptr ? "no memory" : hl_context_message(used), used};
    if (context == nullptr && used != nullptr) hl_program_put_back(program, used);
  }
  if (status == HL_OK) status = execution.hand_out(&problem);
  if (status != HL_OK) hloom::remember(problem);
  return status;
}

// Runs it once, as a caller says. `devices`: those with which it runs, `device` being its number among
// them (replica * partitions + partition); null: alone. `pool` may be null, for its own.
HL_API int32_t hl_program_run_launch(hl_program* program, hl_main_function entry,
                                     hl_argument* arguments, hl_result* results, hl_pool* pool,
                                     const hloom::UserData* user_data, int64_t user_data_count,
                                     hl_devices* devices, int64_t device, int64_t local_device,
                                     int64_t launch_id) {
  hloom::Launch launch{pool,         {user_data_count, user_data},
                       local_device, devices == nullptr ? nullptr : hloom::join,
                       devices,      device,
                       launch_id};
  hloom::Problem problem;
  hloom::Execution execution(*program, arguments, results);
  int32_t status = execution.place(&problem);
  if (status == HL_OK) {
    hl_context* context = devices == nullptr ? hl_program_context(program)
                                             : hloom::context_of_device(program, device);
    status = context == nullptr ? HL_RESOURCE_EXHAUSTED : execution.run(context, launch, entry);
    if (status != HL_OK)
      problem = {status, "", context == nullptr ? "no memory" : hl_context_message(context),
                 context};
    if (context != nullptr) hl_program_put_back(program, context);
  }
  if (status == HL_OK) status = execution.hand_out(&problem);
  if (status != HL_OK) hloom::remember(problem);
  return status;
}

// Runs it on several devices at once: an array of arguments and one of results for each. Nothing has
// been changed where there is no memory for one of them. `contexts` are told to those who look up what
// handlers of the host have raised; they are idle again.
HL_API int32_t hl_program_run_devices(hl_program* program, hl_devices* devices, int64_t count,
                                      hl_main_function entry, hl_argument** arguments,
                                      hl_result** results, hl_context** contexts) {
  hloom::Problem problem;
  std::deque<hloom::Execution> executions;
  std::vector<void**> tables;
  int32_t status = HL_OK;
  for (int64_t k = 0; k < count && status == HL_OK; ++k) {
    hloom::Execution& each = executions.emplace_back(*program, arguments[k], results[k]);
    tables.push_back(each.table());
    status = each.place(&problem);
  }
  int64_t made = 0;
  for (; made < count && status == HL_OK; ++made) {
    contexts[made] = hloom::context_of_device(program, made);
    if (contexts[made] == nullptr) break;
  }
  if (status == HL_OK && made < count) {
    status = HL_RESOURCE_EXHAUSTED;
    problem = {status, "out-of-memory", "no memory for contexts", nullptr};
  }
  if (status == HL_OK) {
    char message[4000] = "";
    hl_main_function main = entry != nullptr ? entry : program->entry;
    status = hl_devices_run(devices, contexts, main, tables.data(), message, sizeof(message));
    if (status != HL_OK) problem = {status, "", message, nullptr};
    for (hloom::Execution& each : executions) each.has_run(status);
  }
  for (int64_t k = 0; k < made; ++k) hl_program_put_back(program, contexts[k]);
  for (int64_t k = 0; k < count && status == HL_OK; ++k) {
    status = executions[k].hand_out(&problem);
    for (int64_t d = 0; d < k && status != HL_OK; ++d)
      for (size_t r = 0; r < program->results.size(); ++r)
        hl_arena_free(nullptr, std::exchange(results[d][r].block, nullptr));
  }
  if (status != HL_OK) hloom::remember(problem);
  return status;
}
