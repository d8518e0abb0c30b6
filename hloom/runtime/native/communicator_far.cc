// What goes from one process to another for one operation of a group that is in both.
#include "communicator_far.h"

#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "communicator_in_process.h"

namespace hloom {
namespace {

// A part of a member's operand that one of another process reads.
struct Part {
  size_t member;
  int64_t operand, at, bytes;
};

int64_t array_bytes(const Exchange& e, int64_t array) {
  return e.operation.arrays[array].outer * e.operation.arrays[array].chunk;
}

int64_t product(const int64_t* sizes, int64_t count) {
  int64_t all = 1;
  for (int64_t k = 0; k < count; ++k) all *= sizes[k];
  return all;
}

// Inputs, and where slices of them start and go to: 32 bits a dimension (permute_slices).
int64_t sliced_operand_bytes(const std::vector<int64_t>& numbers, int64_t operand) {
  size_t at = 1;
  for (int64_t k = 0; k < numbers[0]; ++k) {
    const int64_t* n = numbers.data() + at;
    int64_t item = n[4], rank = n[5];
    if (operand == n[0]) return product(n + 6, rank) * item;
    bool is_start = operand >= n[2] && operand < n[2] + rank;
    if (is_start || (operand >= n[3] && operand < n[3] + rank)) return 4;
    at += 6 + 3 * static_cast<size_t>(rank);
  }
  return 0;
}

int64_t operand_bytes(const Exchange& e, int64_t operand) {
  const std::vector<int64_t>& n = e.operation.numbers;
  int64_t arrays = static_cast<int64_t>(e.operation.arrays.size());
  switch (e.operation.kind) {
    case Exchanging::kReduceScatter:
    case Exchanging::kAllToAll:
      return array_bytes(e, operand) * static_cast<int64_t>(e.members.size());
    case Exchanging::kPermuteSlices:
      return sliced_operand_bytes(n, operand);
    case Exchanging::kRaggedAllToAll:  // x; the output, which stays; offsets and sizes
      if (operand == 0) return n[0] * n[1];
      return operand >= 2 && operand <= 4 ? n[3] * n[4] : 0;
    default:
      // Behind the arrays may stand their roots.
      return operand < arrays ? array_bytes(e, operand) : 4 * arrays;
  }
}

// Rows of an operand of which each member takes its own.
bool is_cut(const Exchange& e) {
  return e.operation.kind == Exchanging::kReduceScatter ||
         e.operation.kind == Exchanging::kAllToAll;
}

// Whether any member of a process reads an operand of this one, as far as is known beforehand.
bool is_read(const Exchange& e, size_t member, int64_t operand, int process) {
  const Far& far = e.far;
  if (e.operation.kind == Exchanging::kBroadcast && e.operation.numbers.empty()) return member == 0;
  if (e.operation.kind == Exchanging::kAllToAllTuple)
    return operand < static_cast<int64_t>(e.members.size()) && far.process_of(operand) == process;
  if (e.operation.kind != Exchanging::kPermute) return true;
  const std::vector<int64_t>& pairs = e.operation.numbers;
  for (size_t k = 0; k + 1 < pairs.size(); k += 2)
    if (pairs[k] == e.members[member] && far.span()->process_of(pairs[k + 1]) == process)
      return true;
  return false;
}

// Bytes of an array above which its fold is cut among processes: below, a letter more takes longer.
constexpr int64_t kFewBytes = 32 * 1024;

const Fold* fold_of(const Operation& operation, int64_t array, size_t members) {
  for (const Fold& fold : operation.folds)
    if (fold.array == array && fold.members == static_cast<int64_t>(members)) return &fold;
  return nullptr;
}

bool is_worth_folding_apart(const Operation& operation, size_t members) {
  if (operation.kind != Exchanging::kAllReduce) return false;
  int64_t bytes = 0;
  for (size_t k = 0; k < operation.arrays.size(); ++k) {
    const Fold* fold = fold_of(operation, static_cast<int64_t>(k), members);
    // Vectors begin where a step does.
    if (fold == nullptr || fold->step_bytes == 0 || fold->step_bytes % kLetterAlignment != 0)
      return false;
    bytes += operation.arrays[k].outer * operation.arrays[k].chunk;
  }
  return bytes > kFewBytes;
}

// The steps of a fold that a process does.
std::pair<int64_t, int64_t> steps_of(const Fold& fold, const Far& far, int process) {
  int64_t number = far.span()->own() < process, count = 1;
  for (int other : far.processes()) number += other < process, count += 1;
  return {fold.steps * number / count, fold.steps * (number + 1) / count};
}

// What a process folds of each array.
std::vector<Part> folded_parts(const Exchange& e, int process) {
  std::vector<Part> all;
  for (int64_t k = 0; k < e.operation.operands; ++k) {
    const Fold& fold = *fold_of(e.operation, k, e.members.size());
    auto [first, end] = steps_of(fold, e.far, process);
    int64_t from = std::min(first * fold.step_bytes, array_bytes(e, k));
    int64_t to = end == fold.steps ? array_bytes(e, k) : end * fold.step_bytes;
    if (to > from) all.push_back({0, k, from, to - from});
  }
  return all;
}

// What a letter from one process to another holds, in order.
std::vector<Part> parts(const Exchange& e, int from, int to) {
  std::vector<Part> all;
  int64_t count = static_cast<int64_t>(e.members.size());
  for (size_t m = 0; m < e.members.size(); ++m) {
    if (e.far.process_of(m) != from) continue;
    if (e.far.is_apart()) {
      for (Part part : folded_parts(e, to)) {
        part.member = m;
        all.push_back(part);
      }
      continue;
    }
    for (int64_t k = 0; k < e.operation.operands; ++k) {
      if (!is_cut(e)) {
        if (is_read(e, m, k, to)) all.push_back({m, k, 0, operand_bytes(e, k)});
        continue;
      }
      const Rows& rows = e.operation.arrays[k];
      for (int64_t row = 0; row < rows.outer * count; ++row)
        if (e.far.process_of(row % count) == to)
          all.push_back({m, k, row * rows.chunk, rows.chunk});
    }
  }
  return all;
}

int64_t total_bytes(const std::vector<Part>& all) {
  int64_t size = 0;
  for (const Part& part : all) size += aligned(part.bytes);
  return size;
}

}  // namespace

std::vector<int64_t> Span::worked_ns() const {
  std::vector<int64_t> all;
  for (int k = 0; k < processes_->size(); ++k)
    all.push_back(k == own() ? -1 : processes_->worked_ns(k));
  return all;
}

void Span::send(int process, LetterKind kind, int64_t a, int64_t b, int64_t c, Bytes data,
                int64_t size_bytes) const {
  Letter letter{kind, program_, run_, {a, b, c, fingerprint_}, size_bytes};
  processes_->send(process, letter, std::move(data), under_way_);
}

void Span::await_sent(bool has_failed) const {
  if (!has_failed) processes_->take_heart();
  constexpr int64_t kPatienceNs = 10'000'000'000, kPatienceOfFailureNs = 200'000'000;
  auto until = std::chrono::steady_clock::now() +
               std::chrono::nanoseconds(has_failed ? kPatienceOfFailureNs : kPatienceNs);
  while (under_way_.use_count() > 1 && std::chrono::steady_clock::now() < until) usleep(20);
}

bool Span::send_mail(int64_t channel, int64_t source, int64_t target, const void* data,
                     int64_t size_bytes) const {
  Bytes copy = new_bytes(size_bytes);
  if (copy == nullptr) return false;
  if (size_bytes > 0) memcpy(copy.get(), data, size_bytes);
  send(process_of(target), LetterKind::kMail, channel, source, target, std::move(copy), size_bytes);
  return true;
}

void Span::send_all(LetterKind kind, int64_t a, int64_t b, const std::string& text) const {
  std::set<int> others(process_of_.begin(), process_of_.end());
  others.erase(own());
  for (int process : others) {
    int64_t size = static_cast<int64_t>(text.size());
    Bytes data = new_bytes(size);
    if (data == nullptr) size = 0;  // what has happened is told without words
    if (size > 0) memcpy(data.get(), text.data(), text.size());
    send(process, kind, a, b, 0, std::move(data), size);
  }
}

void Span::failed(int32_t status, const std::string& message, int process) const {
  if (status == HL_DEADLINE_EXCEEDED) processes_->give_up();
  send_all(LetterKind::kAbort, status, process, message);
}

Far::Far(const Operation& operation, const std::vector<int64_t>& members, const Span* span)
    : here_(members.size()), span_(span) {
  if (span == nullptr) return;
  std::set<int> others;
  for (int64_t member : members) {
    process_of_.push_back(span->process_of(member));
    is_far_.push_back(span->is_far(member));
    if (is_far_.back()) others.insert(process_of_.back());
  }
  processes_.assign(others.begin(), others.end());
  here_ = static_cast<size_t>(std::count(is_far_.begin(), is_far_.end(), 0));
  speaker_ = static_cast<size_t>(std::find(is_far_.begin(), is_far_.end(), 0) - is_far_.begin());
  is_apart_ = !processes_.empty() && is_worth_folding_apart(operation, members.size());
}

std::pair<int64_t, int64_t> Far::own_steps(const Fold& fold) const {
  return is_apart_ ? steps_of(fold, *this, span_->own()) : std::pair{int64_t{0}, fold.steps};
}

void Far::send_folded(const Exchange& e) const {
  const auto& [operation, visit, first] = e.key;
  std::vector<Part> all = folded_parts(e, span_->own());
  for (int process : processes_) {
    int64_t size = total_bytes(all), at = 0;
    Bytes data = new_bytes(size);
    for (const Part& part : all) {
      auto* from = static_cast<const char*>(e.result(speaker_, part.operand)) + part.at;
      if (data != nullptr) memcpy(data.get() + at, from, part.bytes);
      at += aligned(part.bytes);
    }
    if (data == nullptr) size = 0;
    span_->send(process, LetterKind::kFolded, operation->number, visit, first, std::move(data),
                size);
  }
}

bool Far::take_folded(const Exchange& e, const std::map<int, Bytes>& letters) const {
  for (const auto& [process, letter] : letters) {
    const char* at = letter.get();
    std::vector<Part> all = folded_parts(e, process);
    if (at == nullptr && !all.empty()) return false;
    for (const Part& part : all) {
      for (size_t m = 0; m < e.members.size(); ++m)
        if (!is_far(m))
          memcpy(static_cast<char*>(e.result(m, part.operand)) + part.at, at, part.bytes);
      at += aligned(part.bytes);
    }
  }
  return true;
}

void Far::send_operands(const Exchange& e) const {
  const auto& [operation, visit, first] = e.key;
  for (int process : processes_) {
    std::vector<Part> all = parts(e, span_->own(), process);
    int64_t size = total_bytes(all), at = 0;
    Bytes data = size > 0 ? new_bytes(size) : nullptr;
    if (data == nullptr) size = 0;  // out of memory: the other end says so
    for (const Part& part : all) {
      if (part.bytes > 0 && data != nullptr)
        memcpy(data.get() + at,
               static_cast<const char*>(e.operand(part.member, part.operand)) + part.at,
               part.bytes);
      at += aligned(part.bytes);
    }
    span_->send(process, LetterKind::kOperands, operation->number, visit, first, std::move(data),
                size);
  }
}

bool Far::take_operands(Exchange* e, std::map<int, Bytes>* letters) {
  const Operation& operation = e->operation;
  int64_t known = operation.operands + operation.results;
  // Compiled code may look at all of an operand, even where it uses a part.
  bool is_in_parts = is_cut(*e) || is_apart_;
  for (size_t m = 0; m < e->members.size(); ++m)
    if (is_far(m)) e->pointers[m].assign(known, nullptr);
  for (auto& [process, letter] : *letters) {
    char* at = letter.get();
    for (const Part& part : parts(*e, process, span_->own())) {
      if (part.bytes > 0 && at == nullptr) return false;
      void*& operand = e->pointers[part.member][part.operand];
      if (is_in_parts) {
        if (operand == nullptr) {
          operand = memory_.emplace_back(new_bytes(operand_bytes(*e, part.operand))).get();
          if (operand == nullptr) return false;
        }
        if (part.bytes > 0) memcpy(static_cast<char*>(operand) + part.at, at, part.bytes);
      } else {
        operand = at;
      }
      if (at != nullptr) at += aligned(part.bytes);
    }
    if (!is_in_parts) memory_.push_back(std::move(letter));
  }
  if (operation.kind != Exchanging::kAllReduce) return true;
  for (int64_t k = 0; k < operation.results; ++k) {
    char* nowhere = memory_.emplace_back(new_bytes(array_bytes(*e, k))).get();
    if (nowhere == nullptr) return false;
    for (size_t m = 0; m < e->members.size(); ++m)
      if (is_far(m)) e->pointers[m][operation.operands + k] = nowhere;
  }
  return true;
}

// -- what the run does with letters

Meeting::FarKey Meeting::far_key(const Exchange& exchange) {
  const auto& [operation, visit, first] = exchange.key;
  return {operation->number, visit, first};
}

void Meeting::set_ready(Exchange* exchange) {
  exchange->shares = shares_of(*exchange);
  exchange->is_done_here = exchange->is_complete = exchange->shares == 0;
  exchange->is_ready = true;
  for (InProcess* seat : exchange->seats)
    if (seat != nullptr && seat->waits_for_ == exchange) let_go(seat);
}

void Meeting::go_far(Lock* lock, Exchange* exchange) {
  // All here have come, so it stays as it is until the others have sent.
  lock->unlock();
  exchange->far.send_operands(*exchange);
  lock->lock();
  FarPart& part = far_[far_key(*exchange)];
  part.exchange = exchange;
  go_on_if_complete(&part);
}

void Meeting::fail_without_memory(const Exchange& exchange) {
  fail_locked(HL_RESOURCE_EXHAUSTED, std::string("no memory for what processes send at ") +
                                         exchange.operation.name + " [out-of-memory]");
}

void Meeting::go_on_if_complete(FarPart* part) {
  Exchange* exchange = part->exchange;
  if (exchange == nullptr || exchange->is_ready ||
      part->letters.size() < exchange->far.processes().size())
    return;
  bool is_taken = exchange->far.take_operands(exchange, &part->letters);
  if (!exchange->far.is_apart()) far_.erase(far_key(*exchange));
  if (!is_taken) return fail_without_memory(*exchange);
  set_ready(exchange);
}

void Meeting::finish_here(Lock* lock, Exchange* exchange) {
  if (exchange->far.is_apart()) {
    lock->unlock();
    exchange->far.send_folded(*exchange);
    lock->lock();
  }
  exchange->is_done_here = true;
  if (exchange->far.is_apart()) complete_if_folded(&far_[far_key(*exchange)]);
  else exchange->is_complete = true;
  for (InProcess* seat : exchange->seats)
    if (seat != nullptr) seat->changed_.notify_all();
}

void Meeting::complete_if_folded(FarPart* part) {
  Exchange* exchange = part->exchange;
  if (exchange == nullptr || !exchange->is_done_here ||
      part->folded.size() < exchange->far.processes().size())
    return;
  bool is_taken = exchange->far.take_folded(*exchange, part->folded);
  far_.erase(far_key(*exchange));
  if (!is_taken) return fail_without_memory(*exchange);
  exchange->is_complete = true;
  for (InProcess* seat : exchange->seats)
    if (seat != nullptr && seat->waits_for_ == exchange) let_go(seat);
}

bool Meeting::has_come(const Exchange& exchange, size_t member) const {
  if (!exchange.far.is_far(member)) return exchange.seats[member] != nullptr;
  auto part = far_.find(far_key(exchange));
  if (part == far_.end()) return false;
  const auto& letters = exchange.is_ready ? part->second.folded : part->second.letters;
  return letters.count(exchange.far.process_of(member)) > 0;
}

std::string Meeting::named(const std::vector<int64_t>& devices) const {
  std::string text = devices.size() == 1 ? "device " : "devices ";
  std::set<int> processes;
  for (size_t k = 0; k < devices.size(); ++k) {
    text += (k == 0 ? "" : ", ") + std::to_string(devices[k]);
    if (span_ != nullptr && span_->is_far(devices[k]))
      processes.insert(span_->process_of(devices[k]));
  }
  std::string of;
  for (int process : processes) of += (of.empty() ? "" : ", ") + std::to_string(process);
  if (processes.empty()) return text;
  return text + (processes.size() == 1 ? " of process " : " of processes ") + of;
}

void Meeting::say_ended() {
  if (span_ != nullptr && status() == HL_OK) span_->send_all(LetterKind::kEnded, -1, 0, "");
}

void Meeting::say_who_ended() {
  if (span_ == nullptr) return;
  for (int64_t device = 0; device < static_cast<int64_t>(ended_.size()); ++device)
    if (ended_[device] && !span_->is_far(device) && said_ended_.insert(device).second)
      span_->send_all(LetterKind::kEnded, device, 0, "");
}

void Meeting::receive(int process, const Letter& letter, Bytes data) {
  Lock lock(mutex_);
  const int64_t* n = letter.numbers;
  if (letter.kind != LetterKind::kGone && !span_->is_same_program(letter))
    return fail_locked(HL_INVALID_ARGUMENT,
                       "process " + std::to_string(process) +
                           " runs another program here: all must run the same ones, in the same "
                           "order, compiled with the same options [processes]");
  switch (letter.kind) {
    case LetterKind::kOperands: {
      FarPart& part = far_[{n[0], n[1], n[2]}];
      part.letters[process] = std::move(data);
      return go_on_if_complete(&part);
    }
    case LetterKind::kFolded: {
      FarPart& part = far_[{n[0], n[1], n[2]}];
      part.folded[process] = std::move(data);
      return complete_if_folded(&part);
    }
    case LetterKind::kMail: {
      auto& mail = mail_[{n[0], n[1], n[2]}];
      mail.push_back({std::move(data), letter.size_bytes});
      for (InProcess* seat : seats_)
        if (seat->device_ == n[2] && seat->waits_for_sender_ == n[1]) let_go(seat);
      return;
    }
    case LetterKind::kAbort:
      return fail_locked(static_cast<int32_t>(n[0]), std::string(data.get(), letter.size_bytes),
                         static_cast<int>(n[1]));
    case LetterKind::kEnded:
    case LetterKind::kGone:
      for (int64_t device = 0; device < static_cast<int64_t>(ended_.size()); ++device) {
        bool is_meant = letter.kind == LetterKind::kGone || n[0] < 0 || n[0] == device;
        if (is_meant && span_->process_of(device) == process) ended_[device] = true;
      }
      return fail_if_vain();
    default:
      return;
  }
}

}  // namespace hloom
