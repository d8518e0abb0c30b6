// Devices that are threads of this process: the one place where they meet. Some of a run may be in other
// processes (communicator_far.h): what they put down comes in letters.
#ifndef HLOOM_RUNTIME_COMMUNICATOR_IN_PROCESS_H
#define HLOOM_RUNTIME_COMMUNICATOR_IN_PROCESS_H

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "communicator.h"
#include "communicator_far.h"

namespace hloom {

// What one device has sent to another.
struct Mail {
  Bytes data;
  int64_t size_bytes;
};

class Meeting;
class InProcess;

// What the members of a group have put down for one operation. Who is there does the work: shares
// of it are taken by whoever waits, so that nobody waits for one that computes.
struct Exchange {
  Exchange(const Operation& operation, const std::vector<int64_t>& members, const Span* span)
      : operation(operation),
        members(members),
        pointers(members.size()),
        seats(members.size()),
        far(operation, members, span) {}

  const Operation& operation;
  const std::vector<int64_t> members;
  std::vector<std::vector<void*>> pointers;  // of each member: operands, results, functions
  std::vector<InProcess*> seats;             // null: it has not come, or never will here
  Far far;
  std::tuple<const Operation*, int64_t, int64_t> key;
  size_t arrived = 0, departed = 0;
  // Done here: all shares are; complete: what others have folded has come, too.
  bool is_ready = false, is_done_here = false, is_complete = false;
  int64_t shares = 0;
  std::atomic<int64_t> next{0}, finished{0};
  std::mutex error_mutex;
  std::string error;  // what is wrong with the values: offsets beyond an array

  void* operand(size_t member, int64_t k) const { return pointers[member][k]; }
  void* result(size_t member, int64_t k) const { return pointers[member][operation.operands + k]; }
  void fail(const std::string& message);
};

// communicator_moves.cc: how many shares the work has, and one of them.
int64_t shares_of(const Exchange& exchange);
void do_share(Exchange* exchange, int64_t share);

// A device of a run.
class InProcess final : public Communicator {
 public:
  InProcess(Meeting* meeting, Operations* operations, int64_t device);
  InProcess(const InProcess&) = delete;
  InProcess& operator=(const InProcess&) = delete;

  // In the device's own thread, around all it does. All devices of a run exist before one begins.
  void begin(hl_context* context);
  // What a device leaves others of its memory has been read when this returns; a second call does
  // nothing.
  void end(int32_t status, const std::string& message);

  int32_t start(const int64_t* description, const char* name, void* const* pointers) override;
  int32_t done(const int64_t* description) override;
  int32_t send(int64_t channel, int64_t target, const void* data, int64_t bytes) override;
  int32_t receive(int64_t channel, int64_t source, void* data, int64_t bytes,
                  const char* name) override;
  void abort(int32_t status, const std::string& message) override;
  int32_t health() override;
  int64_t waited_ns() const override { return waited_ns_; }
  int64_t device() const override { return device_; }

 private:
  // Ends the run for want of memory, with the mutex held.
  int32_t cannot_send(int64_t target, int64_t bytes);
  friend class Meeting;
  int32_t start_in_no_group(const Operation& operation, void* const* pointers);
  int32_t told(int32_t status, const std::string& message);
  bool finish(Exchange* exchange, std::string* error);
  int64_t processor_ns() const;

  Meeting* meeting_;
  Operations* operations_;
  hl_context* context_ = nullptr;
  const int64_t device_;
  clockid_t clock_ = 0;
  bool has_clock_ = false, is_over_ = false;
  int64_t waited_ns_ = 0;  // by its own thread alone
  // Guarded by the meeting's mutex.
  std::condition_variable changed_;
  std::map<const Operation*, std::deque<Exchange*>> open_;
  const char* waits_at_ = nullptr;       // null: it computes
  const Exchange* waits_for_ = nullptr;  // null: for a device that sends
  int64_t waits_for_sender_ = -1;
};

// One run of all devices; `span`: which of them are in other processes, null where none is.
class Meeting final : public Receiver {
 public:
  Meeting(int64_t devices, const Patience& patience, const Span* span = nullptr)
      : patience_(patience), span_(span), ended_(devices, false) {}

  // Says to the other processes that all devices here have ended well.
  void say_ended();
  void receive(int process, const Letter& letter, Bytes data) override;

  // The first failure, as all devices are told.
  void fail(int32_t status, const std::string& message);
  int32_t status();
  std::string message();
  // A device that stops where it meets others, until it is let go: what tests stop.
  void stop_device(int64_t device);

 private:
  friend class InProcess;
  using Lock = std::unique_lock<std::mutex>;
  // The operation, how often a member has been there, the first member.
  using Key = std::tuple<const Operation*, int64_t, int64_t>;
  using Address = std::tuple<int64_t, int64_t, int64_t>;  // channel, source, target
  struct Work {
    std::map<const InProcess*, int64_t> seats;
    std::vector<int64_t> processes;
  };
  using FarKey = std::tuple<int64_t, int64_t, int64_t>;  // operation, visit, first member
  // What has come of an operation, and the exchange that waits for the rest.
  struct FarPart {
    std::map<int, Bytes> letters, folded;
    Exchange* exchange = nullptr;
  };

  static FarKey far_key(const Exchange& exchange);
  // `process`: another one, in which it happened.
  void fail_locked(int32_t status, const std::string& message, int process = -1);
  // Sends what the members here have put down; it is ready when all others have sent theirs.
  void go_far(Lock* lock, Exchange* exchange);
  // Ends the run: what processes send at an operation finds no memory.
  void fail_without_memory(const Exchange& exchange);
  void go_on_if_complete(FarPart* part);
  // All shares are done: the others are sent what they have not folded.
  void finish_here(Lock* lock, Exchange* exchange);
  void complete_if_folded(FarPart* part);
  void set_ready(Exchange* exchange);
  bool has_come(const Exchange& exchange, size_t member) const;
  std::string named(const std::vector<int64_t>& devices) const;
  // Waits, as what the seat says it waits for, until somebody lets it go on. False: it failed.
  bool wait(Lock* lock, InProcess* seat);
  // Says to the other processes which devices here have ended while others wait, once each.
  void say_who_ended();
  Work work_so_far() const;
  bool is_anybody_working(const Work& before, int64_t waited_ns) const;
  void fail_if_vain();
  bool is_waiting(const InProcess& seat) const;
  std::vector<int64_t> missing(const InProcess& seat) const;
  std::string waiting(const InProcess& seat) const;
  void let_go(InProcess* seat);

  const Patience patience_;
  const Span* const span_;
  std::mutex mutex_;
  std::vector<InProcess*> seats_;
  std::vector<bool> ended_;
  std::set<int64_t> said_ended_;
  std::map<Key, std::unique_ptr<Exchange>> exchanges_;
  std::map<std::pair<const Operation*, int64_t>, int64_t> visits_;
  std::map<Address, std::deque<Mail>> mail_;
  std::map<FarKey, FarPart> far_;
  int64_t stopped_ = -1;
  int32_t status_ = HL_OK;
  std::string message_;
};

}  // namespace hloom

#endif
