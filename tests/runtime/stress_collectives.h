// Drawn sequences of collectives on eight devices, for `make tsan` and `make stress`.
#ifndef TESTS_RUNTIME_STRESS_COLLECTIVES_H
#define TESTS_RUNTIME_STRESS_COLLECTIVES_H

#include <stddef.h>
#include <stdint.h>

#include "../../hloom/runtime/native/executor.h"
#include "../../hloom/runtime/native/hl.h"

constexpr int64_t kDevices = 8;

struct hl_devices;
struct hl_processes;
HL_API hl_pool* hl_pool_new(int32_t threads);
HL_API void hl_pool_free(hl_pool* pool);
HL_API hl_devices* hl_devices_new(int64_t count, int64_t warn, int64_t terminate, int64_t most);
HL_API void hl_devices_free(hl_devices* devices);
HL_API void hl_devices_across(hl_devices* devices, hl_processes* processes, int64_t program,
                              int64_t fingerprint, const int32_t* process_of);

// A process that ends while it runs a sequence, or ended before.
struct Death {
  int process;
  int64_t device;  // whose thread does it
  size_t step;     // where
  bool is_killed;  // by SIGKILL; else it leaves
  bool is_before;
};

// Whether a run of a drawn sequence ends as it must, on so many devices of this process; of several
// processes the first one aborts. Where another process ends, the run has all results, or its error
// names that process.
bool is_drawn_right(hl_devices* devices, hl_pool* pool, uint32_t seed, int64_t count = kDevices,
                    int rank = 0, const Death* death = nullptr);

#endif
