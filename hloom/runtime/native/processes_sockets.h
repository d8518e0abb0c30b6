// Processes that were started by hand and know one another's address, as sockets join them.
#ifndef HLOOM_RUNTIME_PROCESSES_SOCKETS_H
#define HLOOM_RUNTIME_PROCESSES_SOCKETS_H

#include <string>
#include <vector>

#include "processes.h"

namespace hloom {

struct Hello;

// Where others may connect with this process, until all have.
class SocketDoor {
 public:
  SocketDoor();
  ~SocketDoor();
  SocketDoor(const SocketDoor&) = delete;
  SocketDoor& operator=(const SocketDoor&) = delete;

  // What the others are to be told, one line; empty: this process cannot be reached.
  const std::string& place() const { return place_; }
  // The processes at these places, this one's own among them at `rank`; they stay until the process
  // ends. Waits until all are connected. Null: see the message.
  Processes* joined(int rank, const std::vector<std::string>& places, int64_t timeout_ns,
                    std::string* message);

 private:
  void close_door();
  // Lets one more process in, if there is one.
  void answer(const Hello& hello, std::vector<int>* sockets);

  int socket_ = -1;
  std::string place_;
};

// Processes that are connected: a socket for each but this one. Null: see the message.
Processes* socket_post(int rank, std::vector<int> sockets, std::string* message);

}  // namespace hloom

#endif
