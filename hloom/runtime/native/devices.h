// Programs on several devices of this process; see devices.cc.
#ifndef HLOOM_RUNTIME_DEVICES_H
#define HLOOM_RUNTIME_DEVICES_H

#include <list>
#include <memory>
#include <set>
#include <vector>

#include "communicator_in_process.h"
#include "host.h"

typedef struct hl_devices hl_devices;
typedef struct hl_processes hl_processes;

// The devices that run one program: what they found out about who meets whom stays from run to run.
struct hl_devices {
  // A run whose devices come one by one.
  struct Launched {
    explicit Launched(hl_devices* devices);
    hloom::Meeting meeting;
    std::vector<std::unique_ptr<hloom::InProcess>> own;  // by device
    std::vector<bool> is_taken;                          // by device
    int64_t left;                                        // how many have not ended yet
  };

  int64_t count;
  hloom::Patience patience;
  hloom::Operations operations;
  std::mutex mutex;
  std::set<hloom::Meeting*> under_way;
  bool has_met = false;
  int64_t stopped = -1;
  int64_t runs = 0, meetings = 0;
  std::vector<int64_t> barrier{};
  std::vector<int64_t> here{};          // the devices of this process
  std::unique_ptr<hloom::Span> span{};  // null: all are here
  std::list<std::pair<int64_t, std::shared_ptr<Launched>>> launches{};  // by launch number
};

// Runs a program on all devices at once, each with its context and base addresses. Returns the first
// failure, with its sentence in `message`. Several runs may be under way.
HL_API int32_t hl_devices_run(hl_devices* devices, hl_context** contexts, hl_main_function fn,
                              void*** buffers, char* message, int64_t size);

#endif
