// Drawn sequences of collectives on eight devices, with delays and failures: every result is right,
// or every run ends with the right error, and none hangs; in one process, and in several that sockets
// join (which here are threads of one; real ones are in stress_processes.cc). A part of `make tsan`.
#include "stress_collectives.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../hloom/runtime/native/processes_sockets.h"

struct hl_custom_call;
HL_API int32_t hl_custom_call_keeps_order(const hl_custom_call*) { return 0; }
// No program here makes custom calls, and their handlers are not linked.
HL_API int32_t hl_call_sites_begin(hl_context*, void**) { return HL_OK; }
HL_API hl_context* hl_context_new(hl_pool* pool, hl_arena* arena);
HL_API void hl_context_free(hl_context* context);
HL_API int32_t hl_devices_run(hl_devices* devices, hl_context** contexts, hl_main_function fn,
                              void*** buffers, char* message, int64_t size);
HL_API void hl_devices_abort(hl_devices* devices, int32_t status, const char* message);
HL_API int32_t hl_collective(hl_context*, const int64_t*, const char*, void**);
HL_API int32_t hl_collective_start(hl_context*, const int64_t*, const char*, void**);
HL_API int32_t hl_collective_done(hl_context*, const int64_t*, const char*);
HL_API int32_t hl_send(hl_context*, const char*, int64_t channel, const int64_t* pairs,
                       int64_t count, const void* data, int64_t bytes);
HL_API int32_t hl_receive(hl_context*, const char*, int64_t channel, const int64_t* pairs,
                          int64_t count, void* data, int64_t bytes);

namespace {

constexpr int64_t kLength = 48;
constexpr int64_t kBytes = 8 * kLength;

// The operands of a group to their sum, into the results of all; a step is 8 elements.
template <int members>
void sum_of(void* arguments, int64_t begin, int64_t end) {
  auto** arrays = static_cast<int64_t**>(arguments);
  for (int64_t k = 8 * begin; k < 8 * end; ++k) {
    int64_t sum = 0;
    for (int d = 0; d < members; ++d) sum += arrays[d][k];
    for (int d = 0; d < members; ++d) arrays[members + d][k] = sum;
  }
}

// As hloom/program/thunks/collective.py writes them: number, kind, operands, results, groups,
// arrays, folds, numbers.
const int64_t kSumOfAll[] = {1, 0, 1,      1,  1,  8,  0,           1,  2,  3,  4,  5, 6, 7,
                             1, 1, kBytes, 1,  0,  8,  kLength / 8, 64, 16, 0,  1,  2, 3, 4,
                             5, 6, 7,      -1, -2, -3, -4,          -5, -6, -7, -8, 0};
const int64_t kSumOfFour[] = {2,      0, 1, 1, 2,           4,  0, 2, 4, 6, 4, 1,  3,  5,  7,  1, 1,
                              kBytes, 1, 0, 4, kLength / 8, 64, 8, 0, 1, 2, 3, -1, -2, -3, -4, 0};
const int64_t kGatherOfTwo[] = {3, 1, 1, 1, 4, 2, 0, 1, 2,      2, 3,
                                2, 4, 5, 2, 6, 7, 1, 1, kBytes, 0, 0};
const int64_t kPermute[] = {4,  5, 1, 1, 1, 8, 0, 1, 2, 3, 4, 5, 6, 7, 1, 1, kBytes, 0,
                            16, 0, 3, 3, 6, 6, 1, 1, 4, 4, 7, 7, 2, 2, 5, 5, 0};
const int64_t kBroadcast[] = {5, 7, 1, 1, 2, 4, 3, 2, 1, 0, 4, 7, 6, 5, 4, 1, 1, kBytes, 0, 0};
const int64_t kBarrier[] = {6, 10, 0, 0, 1, 8, 0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0};
const int64_t kPairs[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 0};
const int64_t* const kAll[] = {kSumOfAll, kSumOfFour, kGatherOfTwo, kPermute, kBroadcast, kBarrier};
constexpr int kKinds = 7;  // the last one is a send and a receive

enum class Fault { kNone, kError, kEndsEarly, kAborted };

struct Step {
  int kind;
  size_t awaited_after;  // so many steps later; 0: at once
};

struct Flight {
  Step step;
  size_t number;
  std::vector<int64_t> mine, result;
};

struct Sequence {
  std::vector<Step> steps;
  std::vector<Flight> flights[kDevices];  // others read and write there until the run ends
  Fault fault = Fault::kNone;
  int64_t device = 0;  // that has the fault
  size_t step = 0;     // at which
  const Death* death = nullptr;
  uint32_t seed = 0;
  std::atomic<int> wrong{0};
};

int64_t operand(int64_t device, size_t step, int64_t k) {
  return 1000 * device + 7 * static_cast<int64_t>(step) + k;
}

// What a device finds in element k of the result.
int64_t expected(int kind, int64_t device, size_t step, int64_t k) {
  int64_t sum = 0;
  switch (kind) {
    case 0:
      for (int64_t d = 0; d < kDevices; ++d) sum += operand(d, step, k);
      return sum;
    case 1:
      for (int64_t d = device % 2; d < kDevices; d += 2) sum += operand(d, step, k);
      return sum;
    case 2:
      return operand(device / 2 * 2 + k / kLength, step, k % kLength);
    case 3:
      return operand((device + 5) % kDevices, step, k);  // each sends to the third behind it
    case 4:
      return operand(device < 4 ? 3 : 7, step, k);
    default:
      return operand((device + 7) % kDevices, step, k);
  }
}

void sleep_ns(int64_t ns) {
  timespec time{0, ns};
  nanosleep(&time, nullptr);
}

void check(Sequence& sequence, const Flight& flight, int64_t device) {
  if (flight.step.kind == 5) return;
  int64_t length = flight.step.kind == 2 ? 2 * kLength : kLength;
  for (int64_t k = 0; k < length; ++k)
    if (flight.result[k] != expected(flight.step.kind, device, flight.number, k)) {
      sequence.wrong.fetch_add(1);
      return;
    }
}

int32_t begin(hl_context* context, Flight& flight) {
  auto fold = flight.step.kind == 0 ? sum_of<8> : sum_of<4>;
  void* pointers[] = {flight.mine.data(), flight.result.data(), reinterpret_cast<void*>(fold)};
  if (flight.step.kind == 6)
    return hl_send(context, "send", 9, kPairs, kDevices, flight.mine.data(), kBytes);
  const int64_t* description = kAll[flight.step.kind];
  if (flight.step.awaited_after == 0) return hl_collective(context, description, "drawn", pointers);
  return hl_collective_start(context, description, "drawn", pointers);
}

int32_t end(hl_context* context, Flight& flight) {
  if (flight.step.kind == 6)
    return hl_receive(context, "recv", 9, kPairs, kDevices, flight.result.data(), kBytes);
  if (flight.step.awaited_after == 0) return HL_OK;
  return hl_collective_done(context, kAll[flight.step.kind], "drawn");
}

int32_t on_a_device(hl_context* context, void** buffers) {
  auto& sequence = *static_cast<Sequence*>(buffers[0]);
  int64_t device = context->device;
  std::mt19937 random(sequence.seed * 31 + static_cast<uint32_t>(device));
  std::vector<Flight>& flights = sequence.flights[device];
  flights.reserve(sequence.steps.size());
  for (size_t k = 0; k < sequence.steps.size(); ++k) {
    if (random() % 4 == 0) sleep_ns(random() % 200'000);
    if (device == sequence.device && k == sequence.step) {
      if (sequence.fault == Fault::kError) return hl_set_error(context, HL_INTERNAL, "enough");
      if (sequence.fault == Fault::kEndsEarly) return HL_OK;
    }
    const Death* death = sequence.death;
    if (death != nullptr && device == death->device && k >= death->step % sequence.steps.size()) {
      if (death->is_killed) raise(SIGKILL);
      _exit(0);
    }
    Flight& flight = flights.emplace_back();
    flight.step = sequence.steps[k];
    flight.number = k;
    flight.result.assign(2 * kLength, -1);
    for (int64_t j = 0; j < kLength; ++j) flight.mine.push_back(operand(device, k, j));
    if (int32_t status = begin(context, flight)) return status;
    for (Flight& each : flights) {
      bool is_due = each.number + each.step.awaited_after == k;
      bool is_last = k + 1 == sequence.steps.size() && each.number + each.step.awaited_after > k;
      if (!is_due && !is_last) continue;
      if (int32_t status = end(context, each)) return status;
      check(sequence, each, device);
    }
  }
  return HL_OK;
}

Sequence& drawn(Sequence& sequence, uint32_t seed) {
  std::mt19937 random(seed);
  sequence.seed = seed;
  size_t count = 1 + random() % 8;
  // One operation is awaited in the order in which it was started.
  size_t awaited_after[kKinds];
  for (size_t& each : awaited_after) each = random() % 3;
  for (size_t k = 0; k < count; ++k) {
    int kind = static_cast<int>(random() % kKinds);
    sequence.steps.push_back({kind, awaited_after[kind]});
  }
  uint32_t fault = random() % 8;
  sequence.fault = fault < 3 ? static_cast<Fault>(fault + 1) : Fault::kNone;
  sequence.device = random() % kDevices;
  sequence.step = random() % count;
  return sequence;
}

// Whether one in which a process ends ends as it must in another process.
bool names_the_dead(const Death& death, int32_t status, const char* message) {
  if (status == HL_OK) return !death.is_before;
  std::string name = " of process " + std::to_string(death.process);
  const char* at = strstr(message, name.c_str());
  return at != nullptr && strchr(", ;", at[name.size()]) != nullptr;
}

bool ends_right(const Sequence& sequence, int64_t count, int rank, int32_t status,
                const char* message) {
  if (sequence.death != nullptr) return names_the_dead(*sequence.death, status, message);
  // A process is done as soon as its own devices have all that they wait for.
  bool is_elsewhere = sequence.device / count != rank, are_several = count < kDevices;
  switch (sequence.fault) {
    case Fault::kNone:
      return status == HL_OK;
    case Fault::kError:
      return (status == HL_OK && is_elsewhere) ||
             (status == HL_INTERNAL && strstr(message, "enough") != nullptr);
    case Fault::kEndsEarly:
      return (status == HL_OK && are_several) ||
             (status != HL_OK && strstr(message, "ended") != nullptr);
    case Fault::kAborted:
      return status == HL_OK || (status == HL_CANCELLED && strstr(message, "aborted") != nullptr);
  }
  return false;
}

}  // namespace

bool is_drawn_right(hl_devices* devices, hl_pool* pool, uint32_t seed, int64_t count, int rank,
                    const Death* death) {
  Sequence sequence;
  drawn(sequence, seed);
  sequence.death = death;
  if (death != nullptr) sequence.fault = Fault::kNone;
  if (death != nullptr && death->is_before) sequence.steps.assign(1, {0, 0});
  hl_context* contexts[kDevices];
  void* place = &sequence;
  void** buffers[kDevices];
  char message[400] = "";
  for (int64_t d = 0; d < count; ++d) {
    contexts[d] = hl_context_new(pool, nullptr);
    buffers[d] = &place;
  }
  std::thread aborting;
  if (sequence.fault == Fault::kAborted && rank == 0)
    aborting = std::thread([&] {
      sleep_ns(seed % 500'000);
      hl_devices_abort(devices, HL_CANCELLED, "aborted");
    });
  int32_t status =
      hl_devices_run(devices, contexts, on_a_device, buffers, message, sizeof(message));
  if (aborting.joinable()) aborting.join();
  for (int64_t d = 0; d < count; ++d) hl_context_free(contexts[d]);
  bool right = sequence.wrong == 0 && ends_right(sequence, count, rank, status, message);
  if (!right)
    fprintf(stderr, "wrong: sequence %u, fault %d: status %d, %d wrong results, %s\n", seed,
            static_cast<int>(sequence.fault), status, sequence.wrong.load(), message);
  return right;
}

namespace {

// How many sequences of processes, each with as many devices, ended wrongly in one of them.
int over_sockets(int processes, uint32_t count) {
  std::vector<std::unique_ptr<hloom::SocketDoor>> doors;
  std::vector<std::string> places;
  int32_t process_of[kDevices];
  for (int k = 0; k < processes; ++k) {
    doors.push_back(std::make_unique<hloom::SocketDoor>());
    places.push_back(doors.back()->place());
  }
  int64_t each = kDevices / processes;
  for (int64_t d = 0; d < kDevices; ++d) process_of[d] = static_cast<int32_t>(d / each);
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (int rank = 0; rank < processes; ++rank)
    all.emplace_back([&, rank] {
      std::string message;
      hloom::Processes* joined = doors[rank]->joined(rank, places, 60'000'000'000, &message);
      if (joined == nullptr) {
        fprintf(stderr, "wrong: %s\n", message.c_str());
        wrong += 1;
        return;
      }
      hl_pool* pool = hl_pool_new(2);
      hl_devices* devices =
          hl_devices_new(kDevices, 60'000'000'000, 90'000'000'000, 120'000'000'000);
      hl_devices_across(devices, reinterpret_cast<hl_processes*>(joined), 1, 7, process_of);
      for (uint32_t seed = 0; seed < count; ++seed)
        wrong += !is_drawn_right(devices, pool, 1'000'000 * processes + seed, each, rank);
      hl_devices_free(devices);
      hl_pool_free(pool);
    });
  for (std::thread& thread : all) thread.join();
  return wrong;
}

}  // namespace

// How many sequences ended wrongly; HLOOM_SEQUENCES says how many there are.
int drawn_collectives() {
  const char* asked = getenv("HLOOM_SEQUENCES");
  uint32_t count = asked == nullptr ? 3000 : static_cast<uint32_t>(atoi(asked));
  std::atomic<int> wrong{0};
  std::vector<std::thread> hosts;
  for (uint32_t host = 0; host < 2; ++host)
    hosts.emplace_back([&, host] {
      hl_pool* pool = hl_pool_new(2);
      hl_devices* devices =
          hl_devices_new(kDevices, 60'000'000'000, 90'000'000'000, 120'000'000'000);
      for (uint32_t seed = host; seed < count; seed += 2)
        wrong += !is_drawn_right(devices, pool, seed);
      hl_devices_free(devices);
      hl_pool_free(pool);
    });
  for (std::thread& each : hosts) each.join();
  for (int processes : {2, 4}) wrong += over_sockets(processes, count / 5);
  return wrong;
}
