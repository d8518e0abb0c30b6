// The processes of one run, and the letters between them.
//
// A letter is a header and bytes. Letters from one process to another come in the order in which they
// were sent. One thread of each process carries them (a post); it calls receivers as letters come.
#ifndef HLOOM_RUNTIME_PROCESSES_H
#define HLOOM_RUNTIME_PROCESSES_H

#include <stdint.h>
#include <stdlib.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hloom {

enum class LetterKind : int64_t {
  kOperands,  // of a collective: numbers are operation, visit, first member
  kFolded,    // a part of an all-reduce that a process has folded, with the same numbers
  kMail,      // of a send: channel, source, target
  kAbort,     // a failure: its status and process; the bytes are its message
  kEnded,     // a device of the sender has ended, or all (-1)
  kAlive,     // processor time of the sender, in ns
  kGone,      // the sender ends; of no run
  kBytes,     // of the host
};

struct Letter {
  LetterKind kind;
  uint64_t program;  // which of the programs that run across processes
  int64_t run;       // how often it ran before
  int64_t numbers[4];
  int64_t size_bytes;
};

// Bytes at an address that vectors may be loaded from.
struct FreeAligned {
  void operator()(char* memory) const { free(memory); }
};
using Bytes = std::unique_ptr<char, FreeAligned>;
inline constexpr int64_t kLetterAlignment = 64;
inline int64_t aligned(int64_t bytes) {
  return (bytes + kLetterAlignment - 1) / kLetterAlignment * kLetterAlignment;
}
// Null: out of memory.
Bytes new_bytes(int64_t size_bytes);

// A run that letters are for.
class Receiver {
 public:
  virtual ~Receiver() = default;
  // In the thread of the post.
  virtual void receive(int process, const Letter& letter, Bytes data) = 0;
};

class Processes {
 public:
  virtual ~Processes() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }

  // Sends; never waits. Who shares `under_way` is one more until the letter has left or is lost.
  void send(int process, Letter letter, Bytes data, std::shared_ptr<int> under_way = nullptr);
  // From here on letters of a run go to it, first those that have come already.
  void open(uint64_t program, int64_t run, Receiver* receiver);
  // No letter is under way to it when this returns; further ones are dropped.
  void close(uint64_t program, int64_t run);
  // How much processor time a process had when it last said so, in ns; -1: it never did.
  int64_t worked_ns(int process) const { return worked_ns_[process]; }

  // Bytes for the host of another process, in order. Waits; an empty message on success.
  // False: there is no memory for a copy, and nothing was sent.
  bool send_bytes(int process, const void* data, int64_t size_bytes);
  std::string receive_bytes(int process, int64_t timeout_ns, std::vector<char>* data);

  // A run has failed because others did not come: they may never end.
  void give_up() { has_given_up_ = true; }
  // A later one has ended well: they came.
  void take_heart() { has_given_up_ = false; }
  // Whether one of the processes has ended; whether all others have.
  bool is_any_gone();
  bool are_all_gone();

 protected:
  void begin(int rank, int size);
  // For the thread of the post: what is to be sent, waiting so long for it; and what has come.
  struct Outgoing {
    int process;
    Letter letter;
    Bytes data;
    std::shared_ptr<int> under_way{};
  };
  bool next_outgoing(Outgoing* letter, int64_t wait_ns);
  void arrived(int process, const Letter& letter, Bytes data);
  // Called when there is something to be sent, for a post that does not wait in `next_outgoing`.
  virtual void wake() {}
  // Whether a run is under way here.
  bool is_any_open();

  int rank_ = 0, size_ = 1;
  std::atomic<bool> has_given_up_{false};

 private:
  using Run = std::pair<uint64_t, int64_t>;
  std::mutex out_mutex_;
  std::condition_variable out_changed_;
  std::deque<Outgoing> outgoing_;

  std::mutex in_mutex_;  // held while a receiver is called
  std::map<Run, Receiver*> open_;
  // Runs end in any order: all below the first, and these.
  struct Closed {
    int64_t below = 0;
    std::set<int64_t> runs;
    bool has(int64_t run) const { return run < below || runs.count(run) > 0; }
  };
  std::map<uint64_t, Closed> closed_;
  struct Early {
    int process;
    Letter letter;
    Bytes data;
  };
  std::map<Run, std::deque<Early>> early_;
  std::vector<int> gone_;

  std::mutex bytes_mutex_;
  std::condition_variable bytes_changed_;
  std::map<int, std::deque<std::vector<char>>> bytes_;

  std::unique_ptr<std::atomic<int64_t>[]> worked_ns_;
};

// The processes that an MPI launcher has started (processes_mpi.cc), with one of these libraries: paths
// one a line. One post a process. Null, with a sentence in `message`: there are none.
Processes* mpi_processes(const char* libraries, std::string* message);

}  // namespace hloom

#endif
