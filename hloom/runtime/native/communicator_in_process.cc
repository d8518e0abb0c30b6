// Devices meet here. Whoever waits in vain says for whom.
#include "communicator_in_process.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <chrono>

#include "context.h"

HL_API void hl_cancel(hl_context* context);

namespace hloom {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

// A device that has had this part of the time on a processor computes.
constexpr int64_t kBusyPart = 100;
// While one waits so long, other processes are told which devices here have ended: one of them may be
// what all the rest waits for. Sooner than this they end one soon after another, and no letter is due.
constexpr int64_t kSayEndedNs = 500'000'000;

std::string seconds(int64_t ns) {
  char text[32];
  snprintf(text, sizeof(text), "%.3g s", static_cast<double>(ns) * 1e-9);
  return text;
}

}  // namespace

void Exchange::fail(const std::string& message) {
  std::lock_guard<std::mutex> guard(error_mutex);
  if (error.empty()) error = message;
}

// -- a device

InProcess::InProcess(Meeting* meeting, Operations* operations, int64_t device)
    : meeting_(meeting), operations_(operations), device_(device) {
  std::lock_guard<std::mutex> guard(meeting->mutex_);
  meeting->seats_.push_back(this);
}

void InProcess::begin(hl_context* context) {
  std::lock_guard<std::mutex> guard(meeting_->mutex_);
  context_ = context;
  of(context)->communicator = this;
  has_clock_ = pthread_getcpuclockid(pthread_self(), &clock_) == 0;
}

void InProcess::end(int32_t status, const std::string& message) {
  if (is_over_) return;
  is_over_ = true;
  if (status != HL_OK) meeting_->fail(status, "device " + std::to_string(device_) + ": " + message);
  // What others may still read or write of it: they have all come, so this ends.
  std::vector<Exchange*> left;
  {
    std::lock_guard<std::mutex> guard(meeting_->mutex_);
    for (auto& [operation, exchanges] : open_)
      for (Exchange* exchange : exchanges) {
        if (exchange == nullptr) continue;
        if (exchange->is_ready) left.push_back(exchange);
        else
          meeting_->fail_locked(HL_INTERNAL, "device " + std::to_string(device_) +
                                                 " ended before it awaited " +
                                                 exchange->operation.name + " [collective]");
      }
    open_.clear();
  }
  std::string error;
  for (Exchange* exchange : left) finish(exchange, &error);
  Meeting::Lock lock(meeting_->mutex_);
  auto& seats = meeting_->seats_;
  seats.erase(std::find(seats.begin(), seats.end(), this));
  has_clock_ = false;
  meeting_->ended_[device_] = true;
  if (context_ != nullptr) {
    __atomic_store_n(&context_->cancel, 0, __ATOMIC_RELAXED);
    of(context_)->communicator = nullptr;
  }
  meeting_->fail_if_vain();
}

int64_t InProcess::processor_ns() const {
  timespec time;
  if (!has_clock_ || clock_gettime(clock_, &time) != 0) return 0;
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

int32_t InProcess::told(int32_t status, const std::string& message) {
  return hl_set_error(context_, status, "%s", message.c_str());
}

int32_t InProcess::start(const int64_t* description, const char* name, void* const* pointers) {
  const Operation& operation = operations_->parsed(description, name);
  const Operations::Clique& clique = operations_->clique(operation, device_);
  if (clique.members.empty()) return start_in_no_group(operation, pointers);
  Meeting::Lock lock(meeting_->mutex_);
  while (meeting_->stopped_ == device_ && meeting_->status_ == HL_OK) changed_.wait(lock);
  if (meeting_->status_ != HL_OK) return told(meeting_->status_, meeting_->message_);
  int64_t visit = meeting_->visits_[{&operation, device_}]++;
  Meeting::Key key{&operation, visit, clique.members[0]};
  auto& slot = meeting_->exchanges_[key];
  if (slot == nullptr) {
    slot = std::make_unique<Exchange>(operation, clique.members, meeting_->span_);
    slot->key = std::move(key);
  }
  Exchange* exchange = slot.get();
  exchange->pointers[clique.own].assign(
      pointers, pointers + operation.operands + operation.results + operation.folds.size());
  exchange->seats[clique.own] = this;
  open_[&operation].push_back(exchange);
  if (++exchange->arrived < exchange->far.here()) return HL_OK;
  if (exchange->far.processes().empty()) meeting_->set_ready(exchange);
  else meeting_->go_far(&lock, exchange);
  return HL_OK;
}

// A broadcast gives zeros to a device that is in no group; nothing else has anything for it.
int32_t InProcess::start_in_no_group(const Operation& operation, void* const* pointers) {
  if (operation.kind != Exchanging::kBroadcast)
    return told(HL_INVALID_ARGUMENT, std::string(operation.name) + ": device " +
                                         std::to_string(device_) +
                                         " is in none of the replica groups [replica-groups]");
  for (size_t k = 0; k < operation.arrays.size(); ++k) {
    int64_t size = operation.arrays[k].outer * operation.arrays[k].chunk;
    if (size > 0) memset(pointers[operation.operands + k], 0, size);
  }
  Meeting::Lock lock(meeting_->mutex_);
  open_[&operation].push_back(nullptr);
  return HL_OK;
}

int32_t InProcess::done(const int64_t* description) {
  const Operation& operation = operations_->parsed(description, "");
  Exchange* exchange = nullptr;
  {
    Meeting::Lock lock(meeting_->mutex_);
    auto& open = open_[&operation];
    if (open.empty())
      return told(HL_FAILED_PRECONDITION,
                  std::string(operation.name) + " is awaited, and was not started [collective]");
    exchange = open.front();
    if (exchange == nullptr) {
      open.pop_front();
      return HL_OK;
    }
    if (!exchange->is_ready) {
      waits_for_ = exchange;
      waits_at_ = operation.name;
      if (!meeting_->wait(&lock, this)) return told(meeting_->status_, meeting_->message_);
    }
    open.pop_front();
  }
  std::string error;
  if (finish(exchange, &error)) return HL_OK;
  if (error.empty()) return told(meeting_->status(), meeting_->message());
  return told(HL_INVALID_ARGUMENT, std::string(operation.name) + ": " + error);
}

// Does what is left to do of an operation to which all have come. False: its values are wrong, or,
// without an error, the run has failed.
bool InProcess::finish(Exchange* exchange, std::string* error) {
  for (;;) {
    int64_t share = exchange->next.fetch_add(1, std::memory_order_relaxed);
    if (share >= exchange->shares) break;
    do_share(exchange, share);
    if (exchange->finished.fetch_add(1, std::memory_order_acq_rel) + 1 != exchange->shares)
      continue;
    Meeting::Lock lock(meeting_->mutex_);
    meeting_->finish_here(&lock, exchange);
  }
  Meeting::Lock lock(meeting_->mutex_);
  if (!exchange->is_done_here) {
    // Others are at their last shares.
    Clock::time_point begin = Clock::now();
    while (!exchange->is_done_here) changed_.wait(lock);
    waited_ns_ += nanoseconds(Clock::now() - begin).count();
  }
  if (!exchange->is_complete) {
    waits_for_ = exchange;
    waits_at_ = exchange->operation.name;
    if (!meeting_->wait(&lock, this)) return false;
  }
  *error = exchange->error;
  // A seat may go once it has departed, so all are told before the first does.
  if (++exchange->departed == exchange->far.here()) meeting_->exchanges_.erase(exchange->key);
  return error->empty();
}

int32_t InProcess::send(int64_t channel, int64_t target, const void* data, int64_t bytes) {
  Meeting::Lock lock(meeting_->mutex_);
  if (meeting_->status_ != HL_OK) return told(meeting_->status_, meeting_->message_);
  const Span* span = meeting_->span_;
  if (span != nullptr && span->is_far(target)) {
    if (!span->send_mail(channel, device_, target, data, bytes)) return cannot_send(target, bytes);
    return HL_OK;
  }
  Bytes copy = new_bytes(bytes);
  if (copy == nullptr) return cannot_send(target, bytes);
  if (bytes > 0) memcpy(copy.get(), data, bytes);
  meeting_->mail_[{channel, device_, target}].push_back({std::move(copy), bytes});
  for (InProcess* seat : meeting_->seats_)
    if (seat->device_ == target && seat->waits_for_sender_ == device_) meeting_->let_go(seat);
  return HL_OK;
}

int32_t InProcess::cannot_send(int64_t target, int64_t bytes) {
  meeting_->fail_locked(HL_RESOURCE_EXHAUSTED, "no memory for " + std::to_string(bytes) +
                                                   " bytes that are sent to device " +
                                                   std::to_string(target) + " [out-of-memory]");
  return told(meeting_->status_, meeting_->message_);
}

int32_t InProcess::receive(int64_t channel, int64_t source, void* data, int64_t bytes,
                           const char* name) {
  Meeting::Lock lock(meeting_->mutex_);
  auto& mail = meeting_->mail_[{channel, source, device_}];
  while (mail.empty()) {
    if (meeting_->status_ != HL_OK) return told(meeting_->status_, meeting_->message_);
    waits_for_sender_ = source;
    waits_at_ = name;
    if (!meeting_->wait(&lock, this)) return told(meeting_->status_, meeting_->message_);
  }
  Mail item = std::move(mail.front());
  mail.pop_front();
  lock.unlock();
  if (item.size_bytes != bytes)
    return told(HL_INVALID_ARGUMENT, std::string(name) + " takes " + std::to_string(bytes) +
                                         " bytes, and device " + std::to_string(source) + " sent " +
                                         std::to_string(item.size_bytes) + " [recv]");
  if (bytes > 0) memcpy(data, item.data.get(), bytes);
  return HL_OK;
}

void InProcess::abort(int32_t status, const std::string& message) {
  meeting_->fail(status, message);
}

int32_t InProcess::health() { return meeting_->status(); }

// -- the run

int32_t Meeting::status() {
  std::lock_guard<std::mutex> guard(mutex_);
  return status_;
}

std::string Meeting::message() {
  std::lock_guard<std::mutex> guard(mutex_);
  return message_;
}

void Meeting::fail(int32_t status, const std::string& message) {
  std::lock_guard<std::mutex> guard(mutex_);
  fail_locked(status, message);
}

void Meeting::fail_locked(int32_t status, const std::string& message, int process) {
  if (status_ != HL_OK) return;
  status_ = status;
  message_ = process < 0 ? message : "process " + std::to_string(process) + ": " + message;
  if (span_ != nullptr) span_->failed(status, message, process < 0 ? span_->own() : process);
  for (InProcess* seat : seats_) {
    if (seat->context_ != nullptr) hl_cancel(seat->context_);
    seat->changed_.notify_all();
  }
}

void Meeting::stop_device(int64_t device) {
  std::lock_guard<std::mutex> guard(mutex_);
  stopped_ = device;
  for (InProcess* seat : seats_) seat->changed_.notify_all();
}

void Meeting::let_go(InProcess* seat) {
  seat->waits_at_ = nullptr;
  seat->waits_for_ = nullptr;
  seat->waits_for_sender_ = -1;
  seat->changed_.notify_all();
}

bool Meeting::wait(Lock* lock, InProcess* seat) {
  fail_if_vain();
  Work before = work_so_far();
  Clock::time_point begin = Clock::now();
  int64_t next_ns = patience_.warn_ns, say_ns = kSayEndedNs;
  bool has_warned = false;
  while (seat->waits_at_ != nullptr && status_ == HL_OK) {
    seat->changed_.wait_until(*lock, begin + nanoseconds(std::min(next_ns, say_ns)));
    int64_t waited_ns = nanoseconds(Clock::now() - begin).count();
    if (seat->waits_at_ == nullptr || status_ != HL_OK) continue;
    if (waited_ns >= say_ns) {
      say_who_ended();
      say_ns = waited_ns + kSayEndedNs;
    }
    if (waited_ns < next_ns) continue;
    if (!has_warned) {
      has_warned = true;
      fprintf(stderr, "hloom: %s, for %s now\n", waiting(*seat).c_str(),
              seconds(waited_ns).c_str());
    }
    bool is_last = waited_ns >= patience_.most_ns;
    if (is_last ||
        (waited_ns >= patience_.terminate_ns && !is_anybody_working(before, waited_ns))) {
      fail_locked(HL_DEADLINE_EXCEEDED, waiting(*seat) + ", which did not come in " +
                                            seconds(waited_ns) + " [rendezvous]");
      break;
    }
    int64_t step_ns = std::max<int64_t>(patience_.terminate_ns / 4, 1'000'000);
    next_ns = waited_ns < patience_.terminate_ns ? patience_.terminate_ns : waited_ns + step_ns;
    next_ns = std::min(next_ns, std::max(patience_.most_ns, waited_ns + 1));
  }
  seat->waited_ns_ += nanoseconds(Clock::now() - begin).count();
  bool goes_on = seat->waits_at_ == nullptr;
  let_go(seat);
  return goes_on;
}

Meeting::Work Meeting::work_so_far() const {
  Work work;
  for (const InProcess* seat : seats_) work.seats[seat] = seat->processor_ns();
  if (span_ != nullptr) work.processes = span_->worked_ns();
  return work;
}

bool Meeting::is_anybody_working(const Work& before, int64_t waited_ns) const {
  for (const InProcess* seat : seats_) {
    if (seat->waits_at_ != nullptr) continue;
    auto known = before.seats.find(seat);
    int64_t worked = seat->processor_ns() - (known == before.seats.end() ? 0 : known->second);
    if (worked > waited_ns / kBusyPart) return true;
  }
  if (span_ == nullptr) return false;
  std::vector<int64_t> now = span_->worked_ns();
  for (size_t k = 0; k < now.size(); ++k)
    if (now[k] - before.processes[k] > waited_ns / kBusyPart) return true;
  return false;
}

std::vector<int64_t> Meeting::missing(const InProcess& seat) const {
  if (seat.waits_for_ == nullptr) return {seat.waits_for_sender_};
  std::vector<int64_t> found;
  const Exchange& exchange = *seat.waits_for_;
  for (size_t k = 0; k < exchange.members.size(); ++k)
    if (!has_come(exchange, k)) found.push_back(exchange.members[k]);
  return found;
}

std::string Meeting::waiting(const InProcess& seat) const {
  return "device " + std::to_string(seat.device_) + " waits at " + seat.waits_at_ + " for " +
         named(missing(seat));
}

// Fails where a device waits for one that has ended, or all wait for one another.
void Meeting::fail_if_vain() {
  bool is_everybody = true;
  std::string all;
  for (const InProcess* seat : seats_) {
    if (seat->waits_at_ == nullptr) {
      is_everybody = false;
      continue;
    }
    all += (all.empty() ? "" : "; ") + waiting(*seat);
    std::vector<int64_t> gone;
    for (int64_t device : missing(*seat)) {
      if (ended_[device]) gone.push_back(device);
      else if (span_ != nullptr && span_->is_far(device)) is_everybody = false;
    }
    if (gone.empty()) continue;
    fail_locked(HL_DEADLINE_EXCEEDED, "device " + std::to_string(seat->device_) + " waits at " +
                                          seat->waits_at_ + " for " + named(gone) +
                                          ", which ended without it [rendezvous]");
    return;
  }
  if (is_everybody && !all.empty())
    fail_locked(HL_DEADLINE_EXCEEDED, "all devices wait for one another: " + all + " [rendezvous]");
}

}  // namespace hloom
