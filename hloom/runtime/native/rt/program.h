// A program of the embeddable runtime; see hloom_rt.cc.
#ifndef HLOOM_RUNTIME_RT_PROGRAM_H
#define HLOOM_RUNTIME_RT_PROGRAM_H

#include <stdint.h>
#include <sys/mman.h>

#include <string>
#include <vector>

#include "../hloom_rt.h"
#include "../launch.h"
#include "../loaded_program.h"
#include "../saved.h"

namespace hloom {
namespace rt {

inline constexpr size_t kTempAlignment = 64;
inline constexpr int64_t kMostDevices = 1 << 20;

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

// Puts words where a caller wants them; the status.
int32_t told(int32_t status, std::string words, char* error, size_t size);

}  // namespace rt
}  // namespace hloom

struct hloom_rt_program {
  hl_program* core = nullptr;
  hl_pool* pool = nullptr;
  void* mapped = nullptr;
  size_t mapped_bytes = 0;
  std::vector<std::string> input_texts, output_texts, input_names, output_names;
  std::vector<hloom_rt_shape> inputs, outputs;
  std::vector<size_t> output_results;    // the result of the core that each output is
  std::vector<hloom::rt::Place> places;  // by allocation
  std::vector<hloom::rt::CopyIn> copies_in;
  std::vector<hloom::rt::CopyOut> copies_out;
  size_t temp_bytes = 0;
  int64_t replicas = 1, partitions = 1;

  ~hloom_rt_program() {
    if (core != nullptr) hl_program_release(core);
    if (pool != nullptr) hl_pool_free(pool);
    if (mapped != nullptr) munmap(mapped, mapped_bytes);
  }
  size_t room(int64_t size_bytes) {
    constexpr size_t kAlignment = hloom::rt::kTempAlignment;
    size_t at = (temp_bytes + kAlignment - 1) / kAlignment * kAlignment;
    temp_bytes = at + static_cast<size_t>(size_bytes);
    return at;
  }
  void describe(const hloom::saved::File& file);
  void place();
};

// The devices that run a program together.
struct hloom_rt_devices {
  hl_devices* all;
  hloom::JoinFunction join;
  std::vector<int64_t> assignment;  // global numbers, by replica * partitions + partition

  // The number among them of a global one; -1: it is none of them.
  int64_t number_of(int64_t device) const {
    for (size_t k = 0; k < assignment.size(); ++k)
      if (assignment[k] == device) return static_cast<int64_t>(k);
    return -1;
  }
};

#endif
