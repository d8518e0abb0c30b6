// Letters on their way: to the post, and from it to those whom they are for.
#include "processes.h"

#include <string.h>

#include <chrono>

#include "host.h"

namespace hloom {

Bytes new_bytes(int64_t size_bytes) {
  int64_t size = aligned(size_bytes < 1 ? 1 : size_bytes);
  return Bytes(static_cast<char*>(aligned_alloc(kLetterAlignment, size)));
}

void Processes::begin(int rank, int size) {
  rank_ = rank;
  size_ = size;
  worked_ns_ = std::make_unique<std::atomic<int64_t>[]>(size);
  for (int k = 0; k < size; ++k) worked_ns_[k] = -1;
}

void Processes::send(int process, Letter letter, Bytes data, std::shared_ptr<int> under_way) {
  {
    std::lock_guard<std::mutex> guard(out_mutex_);
    outgoing_.push_back({process, letter, std::move(data), std::move(under_way)});
    out_changed_.notify_one();
  }
  wake();
}

bool Processes::next_outgoing(Outgoing* letter, int64_t wait_ns) {
  std::unique_lock<std::mutex> lock(out_mutex_);
  if (outgoing_.empty() && wait_ns > 0)
    out_changed_.wait_for(lock, std::chrono::nanoseconds(wait_ns));
  if (outgoing_.empty()) return false;
  *letter = std::move(outgoing_.front());
  outgoing_.pop_front();
  return true;
}

void Processes::arrived(int process, const Letter& letter, Bytes data) {
  if (letter.kind == LetterKind::kAlive) {
    worked_ns_[process] = letter.numbers[0];
    return;
  }
  if (letter.kind == LetterKind::kBytes) {
    std::lock_guard<std::mutex> guard(bytes_mutex_);
    bytes_[process].emplace_back(data.get(), data.get() + letter.size_bytes);
    bytes_changed_.notify_all();
    return;
  }
  std::lock_guard<std::mutex> guard(in_mutex_);
  if (letter.kind == LetterKind::kGone) {
    gone_.push_back(process);
    for (auto& [run, receiver] : open_) receiver->receive(process, letter, nullptr);
    return;
  }
  auto found = open_.find({letter.program, letter.run});
  if (found != open_.end()) return found->second->receive(process, letter, std::move(data));
  auto closed = closed_.find(letter.program);
  if (closed != closed_.end() && closed->second.has(letter.run)) return;
  early_[{letter.program, letter.run}].push_back({process, letter, std::move(data)});
}

void Processes::open(uint64_t program, int64_t run, Receiver* receiver) {
  std::lock_guard<std::mutex> guard(in_mutex_);
  open_[{program, run}] = receiver;
  auto early = early_.find({program, run});
  if (early != early_.end()) {
    for (Early& each : early->second)
      receiver->receive(each.process, each.letter, std::move(each.data));
    early_.erase(early);
  }
  Letter gone{LetterKind::kGone, 0, 0, {0, 0, 0, 0}, 0};
  for (int process : gone_) receiver->receive(process, gone, nullptr);
}

void Processes::close(uint64_t program, int64_t run) {
  std::lock_guard<std::mutex> guard(in_mutex_);
  open_.erase({program, run});
  Closed& closed = closed_[program];
  if (!closed.has(run)) closed.runs.insert(run);
  while (closed.runs.erase(closed.below) > 0) ++closed.below;
  early_.erase({program, run});  // of a run that failed before it began
}

bool Processes::is_any_gone() {
  std::lock_guard<std::mutex> guard(in_mutex_);
  return !gone_.empty();
}

bool Processes::are_all_gone() {
  std::lock_guard<std::mutex> guard(in_mutex_);
  return static_cast<int>(gone_.size()) + 1 >= size_;
}

bool Processes::is_any_open() {
  std::lock_guard<std::mutex> guard(in_mutex_);
  return !open_.empty();
}

bool Processes::send_bytes(int process, const void* data, int64_t size_bytes) {
  Letter letter{LetterKind::kBytes, 0, 0, {0, 0, 0, 0}, size_bytes};
  Bytes copy = new_bytes(size_bytes);
  if (copy == nullptr) return false;
  if (size_bytes > 0) memcpy(copy.get(), data, size_bytes);
  send(process, letter, std::move(copy));
  return true;
}

std::string Processes::receive_bytes(int process, int64_t timeout_ns, std::vector<char>* data) {
  std::unique_lock<std::mutex> lock(bytes_mutex_);
  auto& queue = bytes_[process];
  bool is_there = bytes_changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                                          [&] { return !queue.empty(); });
  if (!is_there) {
    give_up();
    return "process " + std::to_string(process) + " sent nothing in " +
           std::to_string(timeout_ns / 1'000'000'000) + " s [processes]";
  }
  *data = std::move(queue.front());
  queue.pop_front();
  return "";
}

}  // namespace hloom

struct hl_processes : hloom::Processes {};

namespace {

void tell(const std::string& text, char* message, int64_t size) {
  if (size <= 0) return;
  strncpy(message, text.c_str(), size - 1);
  message[size - 1] = 0;
}

hloom::Processes* of(hl_processes* processes) {
  return reinterpret_cast<hloom::Processes*>(processes);
}

}  // namespace

HL_API int64_t hl_processes_rank(hl_processes* processes) { return of(processes)->rank(); }
HL_API int64_t hl_processes_size(hl_processes* processes) { return of(processes)->size(); }

// Not 0: out of memory.
HL_API int32_t hl_processes_send(hl_processes* processes, int64_t process, const void* data,
                                 int64_t size_bytes) {
  bool is_sent = of(processes)->send_bytes(static_cast<int>(process), data, size_bytes);
  return is_sent ? HL_OK : HL_RESOURCE_EXHAUSTED;
}

// Waits for bytes of a process and calls `take` with them. Not 0: see the message.
HL_API int32_t hl_processes_receive(hl_processes* processes, int64_t process, int64_t timeout_ns,
                                    void (*take)(const void*, int64_t), char* message,
                                    int64_t size) {
  std::vector<char> data;
  std::string why = of(processes)->receive_bytes(static_cast<int>(process), timeout_ns, &data);
  if (!why.empty()) {
    tell(why, message, size);
    return HL_DEADLINE_EXCEEDED;
  }
  take(data.data(), static_cast<int64_t>(data.size()));
  return HL_OK;
}
