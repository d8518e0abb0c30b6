// How processes that nobody has started together find one another: each listens, tells where, and is
// connected with each other once. Strangers are turned away.
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "processes_sockets.h"

namespace hloom {

constexpr size_t kTokenBytes = 32;

// What both ends of a connection say first: strangers and processes of other runs do not know the token.
struct Hello {
  char magic[8] = {'h', 'l', 'o', 'o', 'm', '1', 0, 0};
  char token[kTokenBytes] = {};
  int64_t rank = 0;
};

namespace {

constexpr int kAnswerMs = 5'000;  // a stranger, who says nothing, is waited for so long

int64_t now_ns() {
  timespec time;
  return clock_gettime(CLOCK_MONOTONIC, &time) != 0 ? 0
                                                    : time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

// All bytes of something small, within a time. False: they did not come, or go.
template <typename Step>
bool all_bytes(int socket, int event, size_t size, Step step) {
  int64_t until = now_ns() + int64_t{kAnswerMs} * 1'000'000;
  for (size_t at = 0; at < size;) {
    ssize_t count = step(at);
    if (count > 0) at += count;
    else if (count == 0 || (errno != EAGAIN && errno != EINTR)) return false;
    else {
      pollfd fd{socket, static_cast<short>(event), 0};
      if (now_ns() > until || poll(&fd, 1, 200) < 0) return false;
    }
  }
  return true;
}

bool say_hello(int socket, const Hello& hello) {
  auto* from = reinterpret_cast<const char*>(&hello);
  return all_bytes(socket, POLLOUT, sizeof(hello), [&](size_t at) {
    return send(socket, from + at, sizeof(hello) - at, MSG_NOSIGNAL);
  });
}

bool hear_hello(int socket, const Hello& own, int64_t* rank) {
  Hello hello;
  auto* to = reinterpret_cast<char*>(&hello);
  bool is_there = all_bytes(socket, POLLIN, sizeof(hello), [&](size_t at) {
    return recv(socket, to + at, sizeof(hello) - at, 0);
  });
  if (!is_there || memcmp(hello.magic, own.magic, sizeof(own.magic)) != 0 ||
      memcmp(hello.token, own.token, sizeof(own.token)) != 0)
    return false;
  *rank = hello.rank;
  return true;
}

std::string text_of(const char* path) {
  char text[128] = {};
  FILE* file = fopen(path, "re");
  if (file == nullptr) return "";
  size_t size = fread(text, 1, sizeof(text) - 1, file);
  fclose(file);
  while (size > 0 && text[size - 1] <= ' ') --size;
  return std::string(text, size);
}

std::string random_token() {
  unsigned char bytes[kTokenBytes / 2];
  if (getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes))) return "";
  std::string token;
  for (unsigned char byte : bytes) {
    char two[3];
    snprintf(two, sizeof(two), "%02x", byte);
    token += two;
  }
  return token;
}

// Numeric addresses of this machine that others may reach, or that which the environment names.
std::vector<std::string> own_addresses() {
  if (const char* named = getenv("HLOOM_ADDRESS")) return {named};
  std::vector<std::string> all;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {"127.0.0.1"};
  for (ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (each->ifa_addr->sa_family == AF_INET) {
      auto* at = reinterpret_cast<sockaddr_in*>(each->ifa_addr);
      inet_ntop(AF_INET, &at->sin_addr, text, sizeof(text));
    } else if (each->ifa_addr->sa_family == AF_INET6) {
      auto* at = reinterpret_cast<sockaddr_in6*>(each->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&at->sin6_addr)) continue;
      inet_ntop(AF_INET6, &at->sin6_addr, text, sizeof(text));
    }
    if (text[0] != 0) all.push_back(text);
  }
  freeifaddrs(first);
  return all;
}

// Where another process is, as it says it itself.
struct Place {
  std::string token, machine;
  int port = 0;
  std::vector<std::string> addresses;

  explicit Place(const std::string& text) {
    std::istringstream words(text);
    std::string word;
    words >> token >> machine >> port;
    while (words >> word) addresses.push_back(word);
  }
  // Those worth a try from a process of `own`: of one machine, the way that does not leave it first.
  std::vector<std::string> seen_from(const Place& own) const {
    auto is_inside = [](const std::string& a) { return a.rfind("127.", 0) == 0 || a == "::1"; };
    std::vector<std::string> inside, outside;
    for (const std::string& each : addresses) (is_inside(each) ? inside : outside).push_back(each);
    if (machine != own.machine) return addresses.size() == 1 ? addresses : outside;
    inside.insert(inside.end(), outside.begin(), outside.end());
    return inside;
  }
};

// A connection with an address, or -1.
int connected(const std::string& address, int port) {
  sockaddr_storage to{};
  socklen_t size = 0;
  auto* four = reinterpret_cast<sockaddr_in*>(&to);
  auto* six = reinterpret_cast<sockaddr_in6*>(&to);
  if (inet_pton(AF_INET, address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(static_cast<uint16_t>(port));
    size = sizeof(*four);
  } else if (inet_pton(AF_INET6, address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(static_cast<uint16_t>(port));
    size = sizeof(*six);
  } else {
    return -1;
  }
  int socket = ::socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return -1;
  int status = connect(socket, reinterpret_cast<sockaddr*>(&to), size);
  if (status != 0 && errno == EINPROGRESS) {
    pollfd fd{socket, POLLOUT, 0};
    socklen_t length = sizeof(status);
    if (poll(&fd, 1, kAnswerMs) != 1 ||
        getsockopt(socket, SOL_SOCKET, SO_ERROR, &status, &length) != 0)
      status = -1;
  }
  if (status == 0) return socket;
  close(socket);
  return -1;
}

}  // namespace

SocketDoor::SocketDoor() {
  int zero = 0;
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_any;
  socket_ = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_ >= 0) {
    setsockopt(socket_, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    if (bind(socket_, reinterpret_cast<sockaddr*>(&any), sizeof(any)) != 0) close_door();
  }
  if (socket_ < 0) {  // a machine without IPv6
    sockaddr_in four{};
    four.sin_family = AF_INET;
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket_ >= 0 && bind(socket_, reinterpret_cast<sockaddr*>(&four), sizeof(four)) != 0)
      close_door();
  }
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  if (socket_ < 0 || listen(socket_, SOMAXCONN) != 0 ||
      getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &size) != 0)
    return;  // nobody can come
  uint16_t port = own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&own)->sin6_port
                                            : reinterpret_cast<sockaddr_in*>(&own)->sin_port;
  std::string machine = text_of("/proc/sys/kernel/random/boot_id"), token = random_token();
  if (token.empty()) return;
  place_ =
      token + " " + (machine.empty() ? "unknown" : machine) + " " + std::to_string(ntohs(port));
  for (const std::string& each : own_addresses()) place_ += " " + each;
}

void SocketDoor::close_door() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

SocketDoor::~SocketDoor() { close_door(); }

// A connection with process `k`, who answers as that; -1: not yet.
static int asked(const Place& place, const Place& own, const Hello& hello, int k) {
  for (const std::string& address : place.seen_from(own)) {
    int socket = connected(address, place.port);
    int64_t who = -1;
    if (socket < 0) continue;
    if (say_hello(socket, hello) && hear_hello(socket, hello, &who) && who == k) return socket;
    close(socket);
  }
  return -1;
}

void SocketDoor::answer(const Hello& hello, std::vector<int>* sockets) {
  pollfd fd{socket_, POLLIN, 0};
  if (poll(&fd, 1, 200) != 1) return;
  int socket = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  int64_t who = -1, count = static_cast<int64_t>(sockets->size());
  if (socket < 0) return;
  if (hear_hello(socket, hello, &who) && who > hello.rank && who < count && (*sockets)[who] < 0 &&
      say_hello(socket, hello))
    (*sockets)[who] = socket;
  else close(socket);
}

Processes* SocketDoor::joined(int rank, const std::vector<std::string>& places, int64_t timeout_ns,
                              std::string* message) {
  int64_t until = now_ns() + timeout_ns;
  std::vector<int> sockets(places.size(), -1);
  Hello hello;
  hello.rank = rank;
  Place first(places[0]), own(place_);
  first.token.copy(hello.token, kTokenBytes);
  // Those before this one are asked, those behind it ask.
  for (int k = 0; k < static_cast<int>(places.size()); ++k) {
    while (k != rank && sockets[k] < 0) {
      if (k > rank) answer(hello, &sockets);
      else if ((sockets[k] = asked(Place(places[k]), own, hello, k)) < 0) usleep(50'000);
      if (sockets[k] >= 0 || now_ns() < until) continue;
      for (int socket : sockets)
        if (socket >= 0) close(socket);
      *message = "processes " + std::to_string(k) + " and " + std::to_string(rank) +
                 " could not connect in " + std::to_string(timeout_ns / 1'000'000'000) +
                 " s: where others see a process at another address than its machine does, "
                 "HLOOM_ADDRESS names it [processes]";
      return nullptr;
    }
  }
  close_door();
  return socket_post(rank, std::move(sockets), message);
}

}  // namespace hloom
