// Letters through sockets, one between this process and each other. One thread carries them all: it
// sleeps in poll until a socket can go on or somebody sends.
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "processes_sockets.h"
#include "team.h"

namespace hloom {
namespace {

constexpr int64_t kAliveNs = 200'000'000;
constexpr int64_t kMostAtOnce = 8 << 20;  // bytes read of one process before others have their turn
constexpr int64_t kPatienceOfEndNs = 10'000'000'000;

int64_t clock_ns(clockid_t clock) {
  timespec time;
  return clock_gettime(clock, &time) != 0 ? 0 : time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

int64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

void set_up(int socket) {
  int one = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
}

class SocketPost final : public Processes {
 public:
  SocketPost(int rank, std::vector<int> sockets) : peers_(sockets.size()) {
    begin(rank, static_cast<int>(sockets.size()));
    for (size_t k = 0; k < sockets.size(); ++k) {
      peers_[k].socket = sockets[k];
      if (sockets[k] >= 0) set_up(sockets[k]);
    }
    wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  }
  void work();
  void stop();

 private:
  struct Peer {
    int socket = -1;  // -1: this process, or one that is gone
    std::deque<Outgoing> outgoing;
    int64_t sent = 0;  // of the first of them, its header counted
    Letter letter{};
    int64_t received = 0;  // of the letter, its header counted
    Bytes data;
  };

  void wake() override {
    uint64_t one = 1;
    if (write(wake_, &one, sizeof(one)) < 0) return;  // it is awake already
  }
  void distribute();
  void write_some(Peer* peer);
  void read_some(int process);
  // False: nothing more is there for now.
  bool read_once(int process, int64_t* taken);
  void lose(int process);
  void say_alive();
  bool has_outgoing() const;
  void sleep(int64_t wait_ns);
  void end();

  std::vector<Peer> peers_;
  int wake_ = -1;
  int64_t alive_at_ns_ = 0, outside_ns_ = 0, asked_at_ns_ = 0;
  std::atomic<bool> is_stopping_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_ended_ = false;
};

void SocketPost::distribute() {
  Outgoing next;
  while (next_outgoing(&next, 0)) {
    Peer& peer = peers_[next.process];
    if (peer.socket >= 0) peer.outgoing.push_back(std::move(next));
  }
}

void SocketPost::write_some(Peer* peer) {
  constexpr int64_t kHeader = sizeof(Letter);
  while (peer->socket >= 0 && !peer->outgoing.empty()) {
    Outgoing& first = peer->outgoing.front();
    int64_t size = first.letter.size_bytes, at = peer->sent;
    iovec parts[2] = {};
    int count = 0;
    if (at < kHeader)
      parts[count++] = {reinterpret_cast<char*>(&first.letter) + at,
                        static_cast<size_t>(kHeader - at)};
    int64_t begin = std::max<int64_t>(at - kHeader, 0);
    if (begin < size)
      parts[count++] = {first.data.get() + begin, static_cast<size_t>(size - begin)};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<size_t>(count);
    ssize_t written = sendmsg(peer->socket, &message, MSG_NOSIGNAL);
    if (written < 0) {
      // Whoever is gone is noticed where it is read from.
      if (errno != EAGAIN && errno != EINTR) peer->outgoing.clear(), peer->sent = 0;
      if (errno != EINTR) return;
      continue;
    }
    peer->sent += written;
    if (peer->sent < kHeader + size) continue;
    peer->sent = 0;
    peer->outgoing.pop_front();
  }
}

bool SocketPost::read_once(int process, int64_t* taken) {
  constexpr int64_t kHeader = sizeof(Letter);
  Peer& peer = peers_[process];
  char* to = peer.received < kHeader ? reinterpret_cast<char*>(&peer.letter) + peer.received
                                     : peer.data.get() + peer.received - kHeader;
  int64_t whole = peer.received < kHeader ? kHeader : kHeader + peer.letter.size_bytes;
  ssize_t count = recv(peer.socket, to, static_cast<size_t>(whole - peer.received), 0);
  if (count < 0 && errno == EINTR) return true;
  if (count < 0 && errno == EAGAIN) return false;
  if (count <= 0) return lose(process), false;
  peer.received += count;
  *taken += count;
  if (peer.received < whole) return true;
  if (whole == kHeader && peer.letter.size_bytes != 0) {
    peer.data = peer.letter.size_bytes < 0 ? nullptr : new_bytes(peer.letter.size_bytes);
    if (peer.data != nullptr) return true;
    fprintf(stderr, "hloom: no memory for %lld bytes from process %d\n",
            static_cast<long long>(peer.letter.size_bytes), process);
    return lose(process), false;
  }
  peer.received = 0;
  // One that says it goes is not read from again: its end is no second news.
  if (peer.letter.kind == LetterKind::kGone) return lose(process), false;
  arrived(process, peer.letter, std::move(peer.data));
  return true;
}

void SocketPost::read_some(int process) {
  int64_t taken = 0;
  while (taken < kMostAtOnce && read_once(process, &taken)) continue;
}

void SocketPost::lose(int process) {
  Peer& peer = peers_[process];
  ::close(peer.socket);
  peer.socket = -1;
  peer.outgoing.clear();
  peer.data.reset();
  arrived(process, {LetterKind::kGone, 0, 0, {0, 0, 0, 0}, 0}, nullptr);
}

// Outside of runs a process may wait for anything: a file, a user. Within one it works, or is waited for.
void SocketPost::say_alive() {
  int64_t now = now_ns();
  if (!is_any_open() && asked_at_ns_ > 0) outside_ns_ += now - asked_at_ns_;
  asked_at_ns_ = now;
  if (now < alive_at_ns_) return;
  alive_at_ns_ = now + kAliveNs;
  int64_t worked = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_ns(CLOCK_THREAD_CPUTIME_ID);
  Letter letter{LetterKind::kAlive, 0, 0, {worked + outside_ns_, 0, 0, 0}, 0};
  for (int k = 0; k < size(); ++k)
    if (peers_[k].socket >= 0) peers_[k].outgoing.push_back({k, letter, nullptr});
}

bool SocketPost::has_outgoing() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return !peer.outgoing.empty(); });
}

// Until something can be done; does what can be read and is news.
void SocketPost::sleep(int64_t wait_ns) {
  std::vector<pollfd> fds{{wake_, POLLIN, 0}};
  std::vector<int> processes{-1};
  for (int k = 0; k < size(); ++k) {
    if (peers_[k].socket < 0) continue;
    short events = static_cast<short>(POLLIN | (peers_[k].outgoing.empty() ? 0 : POLLOUT));
    fds.push_back({peers_[k].socket, events, 0});
    processes.push_back(k);
  }
  if (poll(fds.data(), fds.size(), static_cast<int>(wait_ns / 1'000'000)) <= 0) return;
  uint64_t count;
  if ((fds[0].revents & POLLIN) != 0 && read(wake_, &count, sizeof(count)) < 0) return;
  for (size_t k = 1; k < fds.size(); ++k)
    if ((fds[k].revents & (POLLIN | POLLHUP | POLLERR)) != 0) read_some(processes[k]);
}

void SocketPost::work() {
  while (!is_stopping_) {
    say_alive();
    distribute();
    for (Peer& peer : peers_) write_some(&peer);
    sleep(kAliveNs);
  }
  end();
}

void SocketPost::end() {
  distribute();
  for (int k = 0; k < size(); ++k)
    if (peers_[k].socket >= 0)
      peers_[k].outgoing.push_back({k, {LetterKind::kGone, 0, 0, {0, 0, 0, 0}, 0}, nullptr});
  int64_t until = now_ns() + (has_given_up_ ? kAliveNs : kPatienceOfEndNs);
  while (has_outgoing() && now_ns() < until) {
    for (Peer& peer : peers_) write_some(&peer);
    if (has_outgoing()) sleep(kAliveNs / 10);
  }
  // What the others have not got yet would be lost with this end of a connection.
  auto is_under_way = [](const Peer& peer) {
    int bytes = 0;
    return peer.socket >= 0 && ioctl(peer.socket, SIOCOUTQ, &bytes) == 0 && bytes > 0;
  };
  while (std::any_of(peers_.begin(), peers_.end(), is_under_way) && now_ns() < until) usleep(1000);
  std::lock_guard<std::mutex> guard(mutex_);
  has_ended_ = true;
  changed_.notify_all();
}

void SocketPost::stop() {
  is_stopping_ = true;
  wake();
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(2 * kPatienceOfEndNs),
                    [this] { return has_ended_; });
}

std::mutex posts_mutex;
std::vector<SocketPost*> posts;
pid_t own_process = 0;

// A child of fork has none of the threads.
void stop_posts() {
  if (getpid() != own_process) return;
  std::lock_guard<std::mutex> guard(posts_mutex);
  for (SocketPost* post : posts) post->stop();
}

}  // namespace

Processes* socket_post(int rank, std::vector<int> sockets, std::string* message) {
  auto* post = new SocketPost(rank, std::move(sockets));
  auto body = [](void* argument) -> void* {
    static_cast<SocketPost*>(argument)->work();
    return nullptr;
  };
  if (!start_thread("hl-post", body, post)) {
    *message = "no thread for what processes send one another [threads]";
    return nullptr;
  }
  std::lock_guard<std::mutex> guard(posts_mutex);
  if (posts.empty()) atexit(stop_posts);
  own_process = getpid();
  posts.push_back(post);
  return post;
}

}  // namespace hloom
