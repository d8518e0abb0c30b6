// Devices wait for one another here. Whoever waits in vain says for whom.
#include "meeting.h"

#include <stdlib.h>

#include <chrono>

namespace hloom::pjrt {
namespace {

// Devices compute between two meetings, on processors that they share.
std::chrono::seconds patience() {
  static const std::chrono::seconds given = [] {
    const char* text = getenv("HLOOM_RENDEZVOUS_S");
    long seconds = text == nullptr ? 0 : strtol(text, nullptr, 10);
    return std::chrono::seconds(seconds > 0 ? seconds : 600);
  }();
  return given;
}

}  // namespace

void Meeting::fail_locked(int code, const std::string& message) {
  if (code_ == 0) {
    code_ = code;
    message_ = message;
  }
  changed_.notify_all();
}

void Meeting::fail(int code, const std::string& message) {
  std::lock_guard<std::mutex> guard(mutex_);
  fail_locked(code, message);
}

void Meeting::leave(int device) {
  std::lock_guard<std::mutex> guard(mutex_);
  left_[device] = true;
  changed_.notify_all();
}

// Whether everybody has come to a table. Where all have, they go on, whatever failed elsewhere: each
// reads what the others have put down.
bool Meeting::all_come(std::unique_lock<std::mutex>* lock, const std::vector<int64_t>& members,
                       int64_t inside, const Table& table) {
  auto is_complete = [&] { return table.arrived == members.size(); };
  auto is_vain = [&] {
    for (size_t k = 0; k < members.size(); ++k)
      if (table.frames[k] == nullptr && left_[members[k] / inside]) return true;
    return false;
  };
  bool in_time = changed_.wait_for(*lock, patience(),
                                   [&] { return is_complete() || code_ != 0 || is_vain(); });
  if (is_complete()) return true;
  if (code_ != 0) return false;
  std::string missing;
  for (size_t k = 0; k < members.size(); ++k)
    if (table.frames[k] == nullptr) missing += " " + std::to_string(members[k]);
  std::string time = std::to_string(patience().count()) + " s";
  fail_locked(PJRT_Error_Code_DEADLINE_EXCEEDED,
              "a collective waits for devices" + missing +
                  (in_time ? ", which have ended without it" : ", which have not come in " + time) +
                  " [rendezvous]");
  return false;
}

Table* Meeting::arrive(const void* call, const std::vector<int64_t>& members, size_t own,
                       const hl_call_frame* frame, int64_t inside) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (code_ != 0) return nullptr;  // others that wait here have given up, or will
  Key key{call, visits_[{call, members[own]}]++, members[0]};
  auto& slot = tables_[key];
  if (slot == nullptr) slot = std::make_unique<Table>(key, members.size());
  Table* table = slot.get();
  table->frames[own] = frame;
  if (++table->arrived == members.size()) changed_.notify_all();
  return all_come(&lock, members, inside, *table) ? table : nullptr;
}

void Meeting::depart(Table* table) {
  std::unique_lock<std::mutex> lock(mutex_);
  size_t members = table->frames.size();
  if (++table->done == members) changed_.notify_all();
  // All are here and none waits for anything else before it departs.
  changed_.wait(lock, [&] { return table->done >= members; });
  // The last to see it takes it away.
  if (++table->done == 2 * members) tables_.erase(table->key);
}

}  // namespace hloom::pjrt
