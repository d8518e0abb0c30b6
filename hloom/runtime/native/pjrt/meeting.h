// Where the devices of one region meet, and the collectives they meet for.
#ifndef HLOOM_RUNTIME_PJRT_MEETING_H
#define HLOOM_RUNTIME_PJRT_MEETING_H

#include <map>
#include <tuple>

#include "../custom_call.h"
#include "program.h"

namespace hloom::pjrt {

// Which meeting: the call, how often its devices have been there, the first device of the group.
using Key = std::tuple<const void*, int64_t, int64_t>;

// What the members of a group have put down: their operands, and where their results go.
struct Table {
  Table(const Key& key, size_t members) : key(key), frames(members, nullptr) {}
  const Key key;
  std::vector<const hl_call_frame*> frames;
  size_t arrived = 0, done = 0;
};

// Members are numbered by their places: where a region has regions inside, those that meet here may
// be places of the inner ones, `inside` of them in each device of this.
class Meeting {
 public:
  explicit Meeting(int devices) : left_(devices, false) {}

  // Puts a frame down and waits for all members; null if the meeting cannot take place any more.
  Table* arrive(const void* call, const std::vector<int64_t>& members, size_t own,
                const hl_call_frame* frame, int64_t inside);
  // Waits until all members have read what they need of the others.
  void depart(Table* table);
  void fail(int code, const std::string& message);
  // This device does not come any more.
  void leave(int device);
  int code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  bool all_come(std::unique_lock<std::mutex>* lock, const std::vector<int64_t>& members,
                int64_t inside, const Table& table);
  void fail_locked(int code, const std::string& message);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::unique_ptr<Table>> tables_;
  std::map<std::pair<const void*, int64_t>, int64_t> visits_;  // of a call, by a member
  std::vector<bool> left_;
  int code_ = 0;
  std::string message_;
};

// The handler of collectives.
int32_t run_collective(hl_context* context, const hl_call_frame* frame);
int64_t attribute_number(const hl_call_frame* frame, const char* name, int64_t missing);

}  // namespace hloom::pjrt

#endif
