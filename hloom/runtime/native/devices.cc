// A program on several devices: a thread for each of this process, which meet in one run.
#include <string.h>

#include <memory>
#include <vector>

#include "context.h"
#include "devices.h"
#include "team.h"

namespace hloom {
namespace {

// All have begun, once for a program: from then on nobody waits for what others still load.
constexpr int64_t kEverybody = 0;

std::vector<int64_t> barrier_of(int64_t count) {
  std::vector<int64_t> made{kEverybody, static_cast<int64_t>(Exchanging::kBarrier), 0, 0, 1, count};
  for (int64_t k = 0; k < count; ++k) made.push_back(k);
  made.insert(made.end(), {0, 0, 0});
  return made;
}

int32_t run_one(InProcess* own, hl_context* context, hl_main_function fn, void** buffers,
                const int64_t* barrier) {
  own->begin(context);
  context->device = static_cast<int32_t>(own->device());
  int32_t status = HL_OK;
  if (barrier != nullptr) {
    status = own->start(barrier, "the first run", nullptr);
    if (status == HL_OK) status = own->done(barrier);
  }
  if (status == HL_OK) status = hl_execute(context, fn, buffers);
  own->end(status, hl_context_message(context));
  return status;
}

}  // namespace
}  // namespace hloom

// From here on, before the first run, these are devices of several processes: `process_of` says in
// which each is. `program` tells programs apart that run across processes, and `fingerprint` must be
// the same in all of them.
HL_API void hl_devices_across(hl_devices* devices, hl_processes* processes, int64_t program,
                              int64_t fingerprint, const int32_t* process_of) {
  auto* all = reinterpret_cast<hloom::Processes*>(processes);
  std::vector<int> places(process_of, process_of + devices->count);
  devices->here.clear();
  for (int64_t k = 0; k < devices->count; ++k)
    if (places[k] == all->rank()) devices->here.push_back(k);
  devices->span.reset(
      new hloom::Span(all, static_cast<uint64_t>(program), fingerprint, std::move(places)));
}

// Runs a program on all devices of this process at once, each with its context and base addresses.
// Returns the first failure, with its sentence in `message`. Several runs may be under way, but of
// one that is across processes.
HL_API int32_t hl_devices_run(hl_devices* devices, hl_context** contexts, hl_main_function fn,
                              void*** buffers, char* message, int64_t size) {
  std::unique_ptr<hloom::Span> span;
  if (devices->span != nullptr) span = std::make_unique<hloom::Span>(*devices->span);
  hloom::Meeting meeting(devices->count, devices->patience, span.get());
  bool is_first;
  {
    std::lock_guard<std::mutex> guard(devices->mutex);
    if (span != nullptr) span->set_run(devices->runs);
    is_first = !devices->has_met;
    if (is_first) devices->barrier = hloom::barrier_of(devices->count);
    devices->has_met = true;
    devices->runs += 1;
    devices->meetings += is_first;
    devices->under_way.insert(&meeting);
    if (devices->stopped >= 0) meeting.stop_device(devices->stopped);
  }
  std::vector<std::unique_ptr<hloom::InProcess>> own;
  own.reserve(devices->here.size());
  for (int64_t device : devices->here)
    own.push_back(std::make_unique<hloom::InProcess>(&meeting, &devices->operations, device));
  if (span != nullptr) span->open(&meeting);
  bool has_threads = hloom::run_team(static_cast<int>(own.size()), [&](int k) {
    hloom::run_one(own[k].get(), contexts[k], fn, buffers[k],
                   is_first ? devices->barrier.data() : nullptr);
  });
  meeting.say_ended();
  {
    std::lock_guard<std::mutex> guard(devices->mutex);
    devices->under_way.erase(&meeting);
  }
  if (!has_threads)
    meeting.fail(HL_RESOURCE_EXHAUSTED,
                 "no threads for " + std::to_string(own.size()) + " devices [threads]");
  if (span != nullptr) span->close();
  int32_t status = meeting.status();
  if (span != nullptr) span->await_sent(status != HL_OK);
  if (size > 0) {
    strncpy(message, meeting.message().c_str(), size - 1);
    message[size - 1] = 0;
  }
  return status;
}

// A device that stops where it meets others, in runs under way and later ones; -1: none does.
HL_API void hl_devices_stop(hl_devices* devices, int64_t device) {
  std::lock_guard<std::mutex> guard(devices->mutex);
  devices->stopped = device;
  for (hloom::Meeting* meeting : devices->under_way) meeting->stop_device(device);
}

// Runs so far, those under way, how often all devices met because it was the first run, cliques.
HL_API void hl_devices_health(hl_devices* devices, int64_t* numbers) {
  std::lock_guard<std::mutex> guard(devices->mutex);
  numbers[0] = devices->runs;
  numbers[1] = static_cast<int64_t>(devices->under_way.size());
  numbers[2] = devices->meetings;
  numbers[3] = devices->operations.cliques();
}
