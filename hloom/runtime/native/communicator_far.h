// Members of a group that are in other processes: what they put down comes in letters, as if it stood here.
//
// Who needs what of whom follows from the operation alone, so both ends of a letter know what is in it.
// Each value is folded here in the same order as in one process, so all bits are the same.
#ifndef HLOOM_RUNTIME_COMMUNICATOR_FAR_H
#define HLOOM_RUNTIME_COMMUNICATOR_FAR_H

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "processes.h"

namespace hloom {

struct Exchange;
struct Fold;
struct Operation;

// In which processes the devices of a program are, and how letters of one run of it are addressed.
class Span {
 public:
  Span(Processes* processes, uint64_t program, int64_t fingerprint, std::vector<int> process_of)
      : processes_(processes),
        program_(program),
        fingerprint_(fingerprint),
        process_of_(std::move(process_of)) {}
  void set_run(int64_t run) {
    run_ = run;
    under_way_ = std::make_shared<int>(0);
  }

  int own() const { return processes_->rank(); }
  int process_of(int64_t device) const { return process_of_[device]; }
  bool is_far(int64_t device) const { return process_of(device) != own(); }
  const std::vector<int>& processes_of_devices() const { return process_of_; }
  // Processor time of all processes but this one, by number; -1: they never said.
  std::vector<int64_t> worked_ns() const;

  void open(Receiver* receiver) const { processes_->open(program_, run_, receiver); }
  void close() const { processes_->close(program_, run_); }
  void send(int process, LetterKind kind, int64_t a, int64_t b, int64_t c, Bytes data,
            int64_t size_bytes) const;
  // False: there is no memory for a copy, and nothing was sent.
  bool send_mail(int64_t channel, int64_t source, int64_t target, const void* data,
                 int64_t size_bytes) const;
  // To all other processes that have a device of the program.
  void send_all(LetterKind kind, int64_t a, int64_t b, const std::string& text) const;
  // A run has failed, in this process or another: all are told by each, as one that has heard of it may
  // end next, and should not be taken for the cause.
  void failed(int32_t status, const std::string& message, int process) const;
  // Until the letters of a run have left: the process may end next, and others still wait for what is
  // in them, or would not know why the run failed. Not for ever: a process may take none.
  void await_sent(bool has_failed) const;
  bool is_same_program(const Letter& letter) const { return letter.numbers[3] == fingerprint_; }

 private:
  Processes* processes_;
  uint64_t program_;
  int64_t fingerprint_, run_ = 0;
  std::shared_ptr<int> under_way_;  // shared by the letters of the run that have not left
  std::vector<int> process_of_;
};

// Which members of a group are elsewhere; none where there is no span.
class Far {
 public:
  Far(const Operation& operation, const std::vector<int64_t>& members, const Span* span);

  bool is_far(size_t member) const { return !is_far_.empty() && is_far_[member] != 0; }
  size_t here() const { return here_; }
  size_t speaker() const { return speaker_; }
  const std::vector<int>& processes() const { return processes_; }
  const Span* span() const { return span_; }
  int process_of(size_t member) const { return process_of_[member]; }

  // Sends each other process what it needs of the members here; they have all come.
  void send_operands(const Exchange& exchange) const;
  // Lets operands of far members stand where letters are, or where their parts belong; and where a
  // fold writes results of theirs, nobody reads. False: out of memory, or a letter is too short.
  bool take_operands(Exchange* exchange, std::map<int, Bytes>* letters);

  // Whether each process folds a part of the arrays for all, so that two times their bytes go over the
  // wire rather than once for each process: worth another letter where they are large.
  bool is_apart() const { return is_apart_; }
  // The steps that are folded here.
  std::pair<int64_t, int64_t> own_steps(const Fold& fold) const;
  void send_folded(const Exchange& exchange) const;
  // False: the other end had no memory for a letter.
  bool take_folded(const Exchange& exchange, const std::map<int, Bytes>& letters) const;

 private:
  std::vector<char> is_far_;  // empty: none is
  std::vector<int> process_of_, processes_;
  size_t here_, speaker_ = 0;
  bool is_apart_ = false;
  const Span* span_;
  std::vector<Bytes> memory_;
};

}  // namespace hloom

#endif
