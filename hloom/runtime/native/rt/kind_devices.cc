// hloom_rt_use_devices: a kind of routines; the devices that call them.
#include <stdio.h>

#include <algorithm>
#include <new>

#include "program.h"
#include "routines.h"

extern "C" {
void hl_collective_start(void);
void hl_collective_done(void);
void hl_collective(void);
void hl_send(void);
void hl_receive(void);
void hl_device_number(void);
hl_devices* hl_devices_new(int64_t count, int64_t warn_ns, int64_t terminate_ns, int64_t most_ns);
void hl_devices_free(hl_devices* devices);
}

namespace {

constexpr double kNanoseconds = 1e9;
constexpr double kLongest = 1e9;  // seconds

// What is wrong with an assignment; empty: nothing.
std::string wrong(const std::vector<int64_t>& assignment) {
  std::vector<int64_t> sorted(assignment);
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return "the device assignment names a device twice";
  return sorted[0] < 0 ? "the device assignment names device " + std::to_string(sorted[0]) : "";
}

}  // namespace

extern "C" void hloom_rt_use_devices(void) {
  static const hloom::rt::Routine kRoutines[] = {
      {"hl_collective_start", reinterpret_cast<void*>(&hl_collective_start)},
      {"hl_collective_done", reinterpret_cast<void*>(&hl_collective_done)},
      {"hl_collective", reinterpret_cast<void*>(&hl_collective)},
      {"hl_send", reinterpret_cast<void*>(&hl_send)},
      {"hl_receive", reinterpret_cast<void*>(&hl_receive)},
      {"hl_device_number", reinterpret_cast<void*>(&hl_device_number)},
      {nullptr, nullptr},
  };
  hloom::rt::use(kRoutines);
}

extern "C" hloom_rt_devices* hloom_rt_devices_new(const hloom_rt_program* program,
                                                  const int64_t* assignment, double patience_s,
                                                  char* error, size_t error_size) {
  std::vector<int64_t> numbers(program->replicas * program->partitions);
  for (size_t k = 0; k < numbers.size(); ++k)
    numbers[k] = assignment == nullptr ? static_cast<int64_t>(k) : assignment[k];
  std::string words = wrong(numbers);
  if (words.empty() && !(patience_s >= 0 && patience_s <= kLongest))
    words = "the patience of devices is no number of seconds";
  if (!words.empty()) {
    hloom::rt::told(0, words, error, error_size);
    return nullptr;
  }
  hloom::Patience patience;
  if (patience_s > 0) {
    patience.terminate_ns = static_cast<int64_t>(patience_s * kNanoseconds);
    patience.warn_ns = patience.terminate_ns / 2;
    patience.most_ns = std::max(patience.most_ns, patience.terminate_ns);
  }
  hl_devices* all = hl_devices_new(static_cast<int64_t>(numbers.size()), patience.warn_ns,
                                   patience.terminate_ns, patience.most_ns);
  return new hloom_rt_devices{all, hloom::join, std::move(numbers)};
}

extern "C" void hloom_rt_devices_free(hloom_rt_devices* devices) {
  if (devices != nullptr) hl_devices_free(devices->all);
  delete devices;
}
