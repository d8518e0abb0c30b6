// How one run of a program differs from its others; see launch.cc.
#ifndef HLOOM_RUNTIME_LAUNCH_H
#define HLOOM_RUNTIME_LAUNCH_H

#include "context.h"
#include "devices.h"

namespace hloom {

struct Launch;

// Runs one device of several, which meets the others that have the same launch: launches.cc has it,
// which only those link that run programs on several devices.
using JoinFunction = int32_t (*)(const Launch& launch, hl_context* context, hl_main_function fn,
                                 void** buffers);

struct Launch {
  hl_pool* pool = nullptr;  // whose threads work on it; null: the context's
  UserDataList user_data{0, nullptr};
  int64_t local_device = 0;       // what handlers are told that it runs on
  JoinFunction join = nullptr;    // null: it runs alone
  hl_devices* devices = nullptr;  // with whom it runs otherwise
  int64_t device = 0;             // its number among them, replica * partitions + partition
  int64_t launch_id = 0;
};

// Runs a program as hl_execute does, in a context that is as before afterwards.
int32_t execute(const Launch& launch, hl_context* context, hl_main_function fn, void** buffers);

int32_t join(const Launch& launch, hl_context* context, hl_main_function fn, void** buffers);

}  // namespace hloom

#endif
