// Processes that MPI joins. The library is found when the program runs, and either of the two families
// of binary interfaces is spoken: MPICH's (Intel MPI, MVAPICH), where handles are numbers, and Open
// MPI's, where they are addresses of symbols. Nothing but messages of bytes is asked of it, by one thread.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <list>

#include "host.h"
#include "processes.h"
#include "team.h"

namespace hloom {
namespace {

using Handle = void*;
constexpr int kHeaderTag = 11, kDataTag = 12;
constexpr int64_t kPiece = int64_t{1} << 30;  // MPI counts in int
constexpr int64_t kAliveNs = 200'000'000;
constexpr int kMultiple = 3;

// What is called, in both families. A handle that is a number stands in the low half of the register.
struct Mpi {
  int (*initialized)(int*);
  int (*init_thread)(int*, char***, int, int*);
  int (*query_thread)(int*);
  int (*finalize)();
  int (*finalized)(int*);
  int (*abort)(Handle, int);
  int (*comm_dup)(Handle, Handle*);
  int (*comm_rank)(Handle, int*);
  int (*comm_size)(Handle, int*);
  int (*set_errhandler)(Handle, Handle);
  int (*isend)(const void*, int, Handle, int, int, Handle, Handle*);
  int (*irecv)(void*, int, Handle, int, int, Handle, Handle*);
  int (*test)(Handle*, int*, void*);
  int (*cancel)(Handle*);
  int (*wait)(Handle*, void*);
  Handle world, byte, errors_return;
  int any_source;
  size_t source_at;  // ints into a status
};

template <class F>
bool find(void* library, const char* name, F** function) {
  *function = reinterpret_cast<F*>(dlsym(library, name));
  return *function != nullptr;
}

bool bind(void* library, Mpi* mpi) {
  bool has_all = find(library, "MPI_Initialized", &mpi->initialized) &&
                 find(library, "MPI_Init_thread", &mpi->init_thread) &&
                 find(library, "MPI_Query_thread", &mpi->query_thread) &&
                 find(library, "MPI_Finalize", &mpi->finalize) &&
                 find(library, "MPI_Finalized", &mpi->finalized) &&
                 find(library, "MPI_Abort", &mpi->abort) &&
                 find(library, "MPI_Comm_dup", &mpi->comm_dup) &&
                 find(library, "MPI_Comm_rank", &mpi->comm_rank) &&
                 find(library, "MPI_Comm_size", &mpi->comm_size) &&
                 find(library, "MPI_Comm_set_errhandler", &mpi->set_errhandler) &&
                 find(library, "MPI_Isend", &mpi->isend) &&
                 find(library, "MPI_Irecv", &mpi->irecv) && find(library, "MPI_Test", &mpi->test) &&
                 find(library, "MPI_Cancel", &mpi->cancel) && find(library, "MPI_Wait", &mpi->wait);
  if (!has_all) return false;
  void* open_world = dlsym(library, "ompi_mpi_comm_world");
  if (open_world != nullptr) {
    mpi->world = open_world;
    mpi->byte = dlsym(library, "ompi_mpi_byte");
    mpi->errors_return = dlsym(library, "ompi_mpi_errors_return");
    mpi->any_source = -1;
    mpi->source_at = 0;
    return mpi->byte != nullptr && mpi->errors_return != nullptr;
  }
  mpi->world = reinterpret_cast<Handle>(uintptr_t{0x44000000});
  mpi->byte = reinterpret_cast<Handle>(uintptr_t{0x4c00010d});
  mpi->errors_return = reinterpret_cast<Handle>(uintptr_t{0x54000001});
  mpi->any_source = -2;
  mpi->source_at = 2;
  return true;
}

// The interface of a library that the process has, or of one that can be loaded.
bool load(const char* libraries, Mpi* mpi, std::string* message) {
  if (bind(RTLD_DEFAULT, mpi)) return true;
  std::string tried;
  for (const char* at = libraries; *at != 0;) {
    const char* end = strchrnul(at, '\n');
    std::string path(at, end);
    at = *end == 0 ? end : end + 1;
    // Its plug-ins look for its symbols among those of the process.
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library != nullptr && bind(library, mpi)) return true;
    const char* why = library == nullptr ? dlerror() : "it has not all functions of MPI";
    tried += (tried.empty() ? "" : "; ") + std::string(why == nullptr ? path : why);
  }
  *message = "no MPI library can be loaded (" + tried + ") [mpi]";
  return false;
}

class Post final : public Processes {
 public:
  explicit Post(const Mpi& mpi) : mpi_(mpi) {}
  // In its thread, which makes all calls of MPI where it makes the first.
  void work();
  std::string wait_for_start();
  void stop();

 private:
  // A message that is not through, with the memory that it stands in.
  struct Pending {
    Handle request = nullptr;
    Bytes data;
    std::unique_ptr<Letter> letter;
    std::shared_ptr<int> under_way{};
  };
  struct Coming {  // the bytes of a letter, in pieces
    int process;
    Letter letter;
    Bytes data;
    std::list<Handle> requests;
  };

  bool start();
  void post_header();
  bool send_one(int64_t wait_ns);
  void send_data(const char* data, int64_t size, int process, std::list<Pending>* pending);
  bool take_header();
  bool take_data();
  void forget_sent();
  void say_alive();
  void end();
  void started(const std::string& message);

  const Mpi mpi_;
  Handle comm_ = nullptr;
  bool is_own_ = false;  // it initialised MPI
  Letter header_{};
  Handle header_request_ = nullptr;
  std::list<Pending> sent_;
  std::list<Coming> coming_;
  int64_t alive_at_ns_ = 0;
  std::atomic<bool> is_stopping_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_started_ = false, has_ended_ = false;
  std::string message_;
};

int64_t clock_ns(clockid_t clock) {
  timespec time;
  return clock_gettime(clock, &time) != 0 ? 0 : time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

void Post::started(const std::string& message) {
  std::lock_guard<std::mutex> guard(mutex_);
  has_started_ = true;
  message_ = message;
  changed_.notify_all();
}

std::string Post::wait_for_start() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return has_started_; });
  return message_;
}

bool Post::start() {
  int is_there = 0, provided = kMultiple, rank = 0, size = 1;
  mpi_.initialized(&is_there);
  is_own_ = is_there == 0;
  int status = is_own_ ? mpi_.init_thread(nullptr, nullptr, kMultiple, &provided)
                       : mpi_.query_thread(&provided);
  if (status != 0) return started("MPI cannot be initialised [mpi]"), false;
  if (!is_own_ && provided < kMultiple)
    return started(
               "MPI was initialised without MPI_THREAD_MULTIPLE, so hloom's thread may not use "
               "it: ask for that, or let hloom initialise MPI [mpi]"),
           false;
  if (mpi_.comm_dup(mpi_.world, &comm_) != 0 || mpi_.comm_rank(comm_, &rank) != 0 ||
      mpi_.comm_size(comm_, &size) != 0)
    return started("MPI has no communicator of all processes [mpi]"), false;
  mpi_.set_errhandler(comm_, mpi_.errors_return);
  begin(rank, size);
  post_header();
  return true;
}

void Post::post_header() {
  mpi_.irecv(&header_, sizeof(header_), mpi_.byte, mpi_.any_source, kHeaderTag, comm_,
             &header_request_);
}

void Post::send_data(const char* data, int64_t size, int process, std::list<Pending>* pending) {
  for (int64_t at = 0; at < size; at += kPiece) {
    Pending& piece = pending->emplace_back();
    int count = static_cast<int>(std::min(kPiece, size - at));
    mpi_.isend(data + at, count, mpi_.byte, process, kDataTag, comm_, &piece.request);
  }
}

bool Post::send_one(int64_t wait_ns) {
  Outgoing next;
  if (!next_outgoing(&next, wait_ns)) return false;
  Pending& header = sent_.emplace_back();
  header.letter = std::make_unique<Letter>(next.letter);
  mpi_.isend(header.letter.get(), sizeof(Letter), mpi_.byte, next.process, kHeaderTag, comm_,
             &header.request);
  if (next.letter.size_bytes > 0) {
    send_data(next.data.get(), next.letter.size_bytes, next.process, &sent_);
    sent_.back().data = std::move(next.data);
  }
  sent_.back().under_way = std::move(next.under_way);
  return true;
}

bool Post::take_header() {
  int status[16] = {}, is_there = 0;
  if (mpi_.test(&header_request_, &is_there, status) != 0 || is_there == 0) return false;
  Coming coming{status[mpi_.source_at], header_, nullptr, {}};
  if (header_.size_bytes > 0) {
    coming.data = new_bytes(header_.size_bytes);
    if (coming.data == nullptr) {
      fprintf(stderr, "hloom: no memory for %lld bytes from process %d\n",
              static_cast<long long>(header_.size_bytes), coming.process);
      mpi_.abort(comm_, 1);
    }
  }
  for (int64_t at = 0; at < header_.size_bytes; at += kPiece) {
    Handle& request = coming.requests.emplace_back(nullptr);
    int count = static_cast<int>(std::min(kPiece, header_.size_bytes - at));
    mpi_.irecv(coming.data.get() + at, count, mpi_.byte, coming.process, kDataTag, comm_, &request);
  }
  coming_.push_back(std::move(coming));
  post_header();
  return true;
}

// Letters of one process go on in the order in which they came; those of another may overtake them.
bool Post::take_data() {
  bool has_moved = false;
  std::vector<bool> waits(size(), false);
  for (auto each = coming_.begin(); each != coming_.end();) {
    bool is_complete = !waits[each->process];
    while (is_complete && !each->requests.empty()) {
      int status[16] = {}, is_there = 0;
      mpi_.test(&each->requests.front(), &is_there, status);
      if (is_there == 0) is_complete = false;
      else each->requests.pop_front();
    }
    waits[each->process] = waits[each->process] || !is_complete;
    if (!is_complete) {
      ++each;
      continue;
    }
    arrived(each->process, each->letter, std::move(each->data));
    each = coming_.erase(each);
    has_moved = true;
  }
  return has_moved;
}

void Post::forget_sent() {
  for (auto each = sent_.begin(); each != sent_.end();) {
    int status[16] = {}, is_through = 0;
    mpi_.test(&each->request, &is_through, status);
    // The bytes of a letter stand with its last piece: those before it are through when it is.
    if (is_through == 0) return;
    each = sent_.erase(each);
  }
}

void Post::say_alive() {
  int64_t now = clock_ns(CLOCK_MONOTONIC);
  if (now < alive_at_ns_) return;
  alive_at_ns_ = now + kAliveNs;
  int64_t worked = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_ns(CLOCK_THREAD_CPUTIME_ID);
  Letter letter{LetterKind::kAlive, 0, 0, {worked, 0, 0, 0}, 0};
  for (int k = 0; k < size(); ++k)
    if (k != rank()) send(k, letter, nullptr);
}

void Post::work() {
  if (!start()) return;
  started("");
  constexpr int64_t kShortestNs = 2'000, kLongestNs = 200'000;
  int64_t pause_ns = kShortestNs;
  while (!is_stopping_) {
    say_alive();
    bool has_moved = send_one(pause_ns);
    while (send_one(0)) continue;
    while (take_header()) has_moved = true;
    has_moved = take_data() || has_moved;
    forget_sent();
    pause_ns = has_moved ? kShortestNs : std::min(2 * pause_ns, kLongestNs);
  }
  end();
}

void Post::end() {
  for (int k = 0; k < size(); ++k)
    if (k != rank()) send(k, {LetterKind::kGone, 0, 0, {0, 0, 0, 0}, 0}, nullptr);
  while (send_one(0)) continue;
  int64_t begin = clock_ns(CLOCK_MONOTONIC);
  while (!sent_.empty() || (has_given_up_ && !are_all_gone())) {
    forget_sent();
    take_header();
    take_data();
    if (clock_ns(CLOCK_MONOTONIC) - begin > (has_given_up_ ? 2'000'000'000 : 10'000'000'000)) break;
    if (sent_.empty()) usleep(1000);
  }
  // Those who were waited for in vain, and have not ended either, would be waited for once more.
  if (has_given_up_ && !are_all_gone() && is_own_) mpi_.abort(comm_, 1);
  int status[16];
  mpi_.cancel(&header_request_);
  mpi_.wait(&header_request_, status);
  int is_over = 0;
  mpi_.finalized(&is_over);
  if (is_own_ && is_over == 0) mpi_.finalize();
  std::lock_guard<std::mutex> guard(mutex_);
  has_ended_ = true;
  changed_.notify_all();
}

void Post::stop() {
  is_stopping_ = true;
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(30), [this] { return has_ended_; });
}

Post* own_post = nullptr;
pid_t own_process = 0;

// MPI is to be told that a process ends; a child of fork has none of it.
void stop_post() {
  if (own_post != nullptr && getpid() == own_process) own_post->stop();
}

}  // namespace

Processes* mpi_processes(const char* libraries, std::string* message) {
  Mpi mpi{};
  if (!load(libraries, &mpi, message)) return nullptr;
  auto* post = new Post(mpi);
  auto body = [](void* argument) -> void* {
    static_cast<Post*>(argument)->work();
    return nullptr;
  };
  if (!start_thread("hl-mpi", body, post)) {
    *message = "no thread for MPI [threads]";
    return nullptr;
  }
  *message = post->wait_for_start();
  if (!message->empty()) return nullptr;
  own_post = post;
  own_process = getpid();
  atexit(stop_post);
  return post;
}

}  // namespace hloom

struct hl_processes;

// The processes of an MPI launcher; they stay until the process ends. Null: see the message.
HL_API hl_processes* hl_processes_mpi(const char* libraries, char* message, int64_t size) {
  static std::mutex mutex;
  static hloom::Processes* only = nullptr;
  std::lock_guard<std::mutex> guard(mutex);
  if (only == nullptr) {
    std::string why;
    only = hloom::mpi_processes(libraries, &why);
    if (only == nullptr && size > 0) snprintf(message, size, "%s", why.c_str());
  }
  return reinterpret_cast<hl_processes*>(only);
}
