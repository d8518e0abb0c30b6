// Where programs run and how their arrays stand there, out of the section LAUNCH of saved ones.
//
// The section is not trusted: every range in it is bounded, every size can be.
#include <stdint.h>
#include <string.h>

#include "program.h"

namespace hloom::pjrt {
namespace {

constexpr int64_t kMostDevices = 4096;

class LaunchReader {
 public:
  LaunchReader(Program* program, saved::Reader in) : program_(*program), in_(in) {}

  // False: the facts are malformed.
  bool read() {
    const auto* row = in_.first<saved::LaunchSpec>();
    if (row == nullptr || row->replicas < 1 || row->replicas > kMostDevices ||
        row->partitions < 1 || row->partitions > kMostDevices)
      return false;
    program_.fingerprint = in_.text(row->fingerprint);
    program_.replicas = row->replicas;
    program_.partitions = row->partitions;
    program_.is_portable = row->is_portable != 0;
    const int64_t* devices = in_.numbers(row->devices);
    if (devices == nullptr) return false;
    program_.devices.assign(devices, devices + row->devices.count);
    const int64_t* limits_ms = in_.numbers(row->together_ms);
    if (limits_ms == nullptr || !read_patience(limits_ms, row->together_ms.count)) return false;
    int64_t named = row->devices.count;
    if (named != 0 && named != row->replicas * row->partitions) return false;
    auto bytes = [](const auto& leaf) { return leaf.size_bytes; };
    return read_arrays(row->arguments, program_.core->arguments, bytes, &program_.arguments) &&
           read_arrays(row->results, program_.core->results, bytes, &program_.results) &&
           program_.results.size() == program_.core->results.size() && is_every_leaf_given() &&
           in_.is_whole;
  }

 private:
  // Whether a program that has `bytes` for an array can take it. Elements that share bytes here must
  // do so there.
  static bool has_bytes(const Array& array, int64_t bytes) {
    if (packed_bits(array.type) == 0) return array.size <= bytes;
    return array.size == bytes;
  }

  // How long devices wait for one another: nothing, where one has nothing to do with others.
  bool read_patience(const int64_t* limits_ms, int64_t count) {
    constexpr int64_t kMostMs = INT64_MAX / 1'000'000;
    if (count != 3 && (count != 0 || program_.partitions > 1)) return false;
    for (int64_t k = 0; k < count; ++k)
      if (limits_ms[k] < 0 || limits_ms[k] > kMostMs) return false;
    program_.is_together = count == 3;
    if (count == 3)
      program_.patience = {limits_ms[0] * 1'000'000, limits_ms[1] * 1'000'000,
                           limits_ms[2] * 1'000'000};
    return true;
  }

  template <typename Leaves, typename Bytes>
  bool read_arrays(saved::Range place, const Leaves& leaves, Bytes bytes,
                   std::vector<Array>* arrays) {
    const auto* rows = in_.records<saved::Array>(place);
    for (int64_t k = 0; rows != nullptr && k < place.count; ++k) {
      Array array{};
      if (!read_array(rows[k], &array)) return false;
      if (array.leaf >= static_cast<int64_t>(leaves.size())) return false;
      if (array.leaf >= 0 && !has_bytes(array, bytes(leaves[array.leaf]))) return false;
      arrays->push_back(std::move(array));
    }
    return rows != nullptr;
  }

  bool read_array(const saved::Array& row, Array* array) {
    const int64_t* dims = in_.numbers(row.dims);
    if (dims == nullptr || !is_type(row.type) || row.dims.count > kMostRank ||
        row.memory_kind < 0 || row.memory_kind >= kMemoryKinds || row.leaf < -1)
      return false;
    int64_t rank = row.dims.count;
    array->leaf = row.leaf;
    array->is_donated = row.is_donated != 0;
    array->type = static_cast<PJRT_Buffer_Type>(row.type);
    array->memory_kind = static_cast<int>(row.memory_kind);
    array->sharding = in_.text(row.sharding);
    if (!has_size(array->type, dims, rank)) return false;
    array->dims.assign(dims, dims + rank);
    array->size = bytes_of(array->type, dims, rank);
    std::string layout(in_.text(row.layout));
    array->layout = layout.empty() ? row_major(rank) : layout_of(layout, rank);
    return array->layout != nullptr;
  }

  // Whether the program gets each of its arguments from one array, and results are in their order.
  bool is_every_leaf_given() const {
    std::vector<bool> is_given(program_.core->arguments.size(), false);
    for (const Array& array : program_.arguments) {
      if (array.leaf < 0) continue;
      if (is_given[array.leaf]) return false;
      is_given[array.leaf] = true;
    }
    for (bool is_one_given : is_given)
      if (!is_one_given) return false;
    for (size_t k = 0; k < program_.results.size(); ++k)
      if (program_.results[k].leaf != static_cast<int64_t>(k)) return false;
    return true;
  }

  Program& program_;
  saved::Reader in_;
};

}  // namespace

PJRT_Error* with_launch_spec(hl_program* core, std::string_view launch_spec,
                             Ref<Program>* program) {
  std::vector<int64_t> aligned((launch_spec.size() + 7) / 8);
  if (!launch_spec.empty()) memcpy(aligned.data(), launch_spec.data(), launch_spec.size());
  saved::Reader in({reinterpret_cast<const char*>(aligned.data()), launch_spec.size()});
  Ref<Program> made(new Program(core));
  made->name = core->name;
  made->calls_host = core->calls_host;
  if (!LaunchReader(made.get(), in).read())
    return failure(PJRT_Error_Code_INVALID_ARGUMENT,
                   "the launch spec of a saved program is malformed [saved-program]");
  *program = std::move(made);
  return nullptr;
}

}  // namespace hloom::pjrt
