// Devices wait for one another here. Whoever waits in vain says for whom.
#include "meeting.h"

#include <chrono>

namespace hl::pjrt {
namespace {

// Devices compute between two meetings, on processors that they share.
constexpr std::chrono::seconds kPatience{600};

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

bool Meeting::wait(std::unique_lock<std::mutex>* lock, const Key& key,
                   const std::vector<int64_t>* members, const std::function<bool()>& ready) {
  auto cannot = [&] {
    if (members == nullptr) return false;
    const Table& table = *tables_[key];
    for (size_t k = 0; k < members->size(); ++k)
      if (table.frames[k] == nullptr && left_[(*members)[k]]) return true;
    return false;
  };
  bool in_time = changed_.wait_for(*lock, kPatience,
                                   [&] { return code_ != 0 || ready() || cannot(); });
  if (code_ != 0) return false;
  if (ready()) return true;
  std::string missing;
  if (members != nullptr) {
    const Table& table = *tables_[key];
    for (size_t k = 0; k < members->size(); ++k)
      if (table.frames[k] == nullptr) missing += " " + std::to_string((*members)[k]);
  }
  fail_locked(PJRT_Error_Code_DEADLINE_EXCEEDED,
              std::string("a collective waits for devices") + missing +
                  (in_time ? ", which have ended without it" : ", which have not come in 600 s") +
                  " [rendezvous]");
  return false;
}

Table* Meeting::arrive(const Key& key, const std::vector<int64_t>& members, size_t own,
                       const hl_call_frame* frame) {
  std::unique_lock<std::mutex> lock(mutex_);
  auto& slot = tables_[key];
  if (slot == nullptr) slot = std::make_unique<Table>(members.size());
  Table* table = slot.get();
  table->frames[own] = frame;
  if (++table->arrived == members.size()) changed_.notify_all();
  bool all = wait(&lock, key, &members, [&] { return table->arrived == members.size(); });
  return all ? table : nullptr;
}

bool Meeting::depart(const Key& key, Table* table) {
  std::unique_lock<std::mutex> lock(mutex_);
  size_t members = table->frames.size();
  if (++table->done == members) changed_.notify_all();
  bool all = wait(&lock, key, nullptr, [&] { return table->done >= members; });
  // The last to see it takes it away.
  if (all && ++table->done == 2 * members) tables_.erase(key);
  return all;
}

}  // namespace hl::pjrt
