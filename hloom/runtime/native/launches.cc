// Devices of a program that are run one by one, each by a call of its own, and meet in a launch.
//
// Of the calls of a device with the same launch number, the first belongs to the first launch of that
// number, the second to the next: whoever comes first makes it, and it ends when all have left.
#include <memory>

#include "host.h"
#include "launch.h"

// Limits in nanoseconds: see Patience. Null: out of memory.
HL_API hl_devices* hl_devices_new(int64_t count, int64_t warn_ns, int64_t terminate_ns,
                                  int64_t most_ns) {
  auto* made = new hl_devices{count, {warn_ns, terminate_ns, most_ns}, {}, {}, {}};
  for (int64_t k = 0; k < count; ++k) made->here.push_back(k);
  return made;
}

HL_API void hl_devices_free(hl_devices* devices) { delete devices; }

// Ends all runs under way.
HL_API void hl_devices_abort(hl_devices* devices, int32_t status, const char* message) {
  std::lock_guard<std::mutex> guard(devices->mutex);
  for (hloom::Meeting* meeting : devices->under_way) meeting->fail(status, message);
}

namespace hloom {
namespace {

using Launched = hl_devices::Launched;

// The launch that a device's call belongs to, in which it has its seat from here on.
std::shared_ptr<Launched> launched(hl_devices* devices, int64_t launch_id, int64_t device) {
  std::lock_guard<std::mutex> guard(devices->mutex);
  for (auto& [id, each] : devices->launches)
    if (id == launch_id && !each->is_taken[device]) {
      each->is_taken[device] = true;
      return each;
    }
  auto made = std::make_shared<Launched>(devices);
  made->is_taken[device] = true;
  devices->launches.emplace_back(launch_id, made);
  devices->under_way.insert(&made->meeting);
  devices->runs += 1;
  return made;
}

void leave(hl_devices* devices, const std::shared_ptr<Launched>& launch) {
  std::lock_guard<std::mutex> guard(devices->mutex);
  if (--launch->left > 0) return;
  devices->under_way.erase(&launch->meeting);
  std::erase_if(devices->launches, [&](const auto& each) { return each.second == launch; });
}

}  // namespace

int32_t join(const Launch& launch, hl_context* context, hl_main_function fn, void** buffers) {
  std::shared_ptr<Launched> met = launched(launch.devices, launch.launch_id, launch.device);
  InProcess* own = met->own[launch.device].get();
  own->begin(context);
  int32_t status = hl_execute(context, fn, buffers);
  own->end(status, hl_context_message(context));
  leave(launch.devices, met);
  return status;
}

}  // namespace hloom

hl_devices::Launched::Launched(hl_devices* devices)
    : meeting(devices->count, devices->patience),
      is_taken(devices->count, false),
      left(devices->count) {
  for (int64_t device = 0; device < devices->count; ++device)
    own.push_back(std::make_unique<hloom::InProcess>(&meeting, &devices->operations, device));
}
