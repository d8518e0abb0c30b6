// What the devices of one run talk to each other through.
//
// Every device of a run has a communicator of its own, which its context points to. An operation is
// started and awaited: between the two a device computes. `InProcess` is the implementation for
// devices that are threads of one process: peers' operands are read where they stand.
#ifndef HLOOM_RUNTIME_COMMUNICATOR_H
#define HLOOM_RUNTIME_COMMUNICATOR_H

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "hl.h"

namespace hloom {

// As hloom/program/thunks/collective.py numbers them.
enum class Exchanging : int64_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kAllToAllTuple,
  kPermute,
  kPermuteSlices,
  kBroadcast,
  kReduce,
  kRaggedAllToAll,
  kBarrier,
};

// One array of an operation: `outer` rows of `chunk` bytes, the unit that moves as a whole.
struct Rows {
  int64_t outer, chunk;
};

// The compiled function that folds an array of a group of `members`: steps of it, and for each of
// its parameters a member's operand (k >= 0) or result (-1 - k). Each step but the last is of the next
// `step_bytes`; 0: that is not known.
struct Fold {
  int64_t array, members, steps, step_bytes;
  std::vector<int64_t> parameters;
};

// An operation of a program. It is the same for all devices; who meets is found by device.
struct Operation {
  int64_t number;  // which of a program's it is
  Exchanging kind;
  const char* name;
  int64_t operands, results;
  std::vector<std::vector<int64_t>> groups;  // of devices, in group order
  std::vector<Rows> arrays;
  std::vector<Fold> folds;
  std::vector<int64_t> numbers;  // what a kind has of its own (communicator_moves.cc)
};

// The operations of a program and who meets for them, found once (`Clique`) for all runs.
class Operations {
 public:
  // What compiled code describes (hloom/program/thunks/collective.py); it stays as it is.
  const Operation& parsed(const int64_t* description, const char* name);
  int64_t cliques() const { return cliques_.load(); }

  // The members of a device's group, and its number among them; empty: it is in none.
  struct Clique {
    std::vector<int64_t> members;
    size_t own = 0;
  };
  const Clique& clique(const Operation& operation, int64_t device);

 private:
  std::mutex mutex_;
  std::map<const int64_t*, std::unique_ptr<Operation>> operations_;
  std::map<std::pair<const Operation*, int64_t>, std::unique_ptr<Clique>> known_;
  std::atomic<int64_t> cliques_{0};
};

// After how long a device that waits says so, gives up on others that do nothing, gives up on
// others that compute.
struct Patience {
  int64_t warn_ns = 20'000'000'000, terminate_ns = 40'000'000'000, most_ns = 1'800'000'000'000;
};

// Statuses are those of hl.h; where one is not HL_OK, the context says more.
class Communicator {
 public:
  virtual ~Communicator() = default;
  // Begins an operation; `pointers`: operands, results, functions that fold. They stay until it is
  // awaited.
  virtual int32_t start(const int64_t* description, const char* name, void* const* pointers) = 0;
  // Awaits the operation that was started first of those that are not awaited yet.
  virtual int32_t done(const int64_t* description) = 0;
  // Sends bytes to a device; never waits.
  virtual int32_t send(int64_t channel, int64_t target, const void* data, int64_t bytes) = 0;
  // Awaits what a device sends.
  virtual int32_t receive(int64_t channel, int64_t source, void* data, int64_t bytes,
                          const char* name) = 0;
  // Ends what all devices of the run wait for; the first failure stays.
  virtual void abort(int32_t status, const std::string& message) = 0;
  // HL_OK while nothing has failed.
  virtual int32_t health() = 0;
  // How long this device has waited for others, in its thread, so far.
  virtual int64_t waited_ns() const = 0;
  // Its number among the devices of the program: replica * partitions + partition.
  virtual int64_t device() const = 0;
};

}  // namespace hloom

#endif
