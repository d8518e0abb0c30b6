// Teams of threads. They are never joined: at the end of a process the system takes them.
#include "team.h"

#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <vector>

#include "fork.h"

namespace hloom {
namespace {

thread_local bool is_member = false;

// A thread that waits for a part of a team's work.
struct TeamMember {
  std::mutex mutex;
  std::condition_variable changed;
  const std::function<void(int)>* body = nullptr;
  int number = 0;

  void run() {
    is_member = true;
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return body != nullptr; });
      auto* work = body;
      lock.unlock();
      (*work)(number);
      lock.lock();
      body = nullptr;
      changed.notify_all();
    }
  }
};

std::mutex idle_mutex;
std::vector<TeamMember*> idle;
pid_t owner = 0;  // the process whose threads these are: a fork has none of them

std::unique_lock<std::mutex> locked_idle() {
  static const bool is_known = (free_in_forks(idle_mutex.native_handle()), true);
  std::unique_lock<std::mutex> lock(idle_mutex);
  if (is_known && owner != getpid()) {
    idle.clear();
    owner = getpid();
  }
  return lock;
}

// Null: no thread is to be had.
TeamMember* idle_member() {
  {
    auto lock = locked_idle();
    if (!idle.empty()) {
      TeamMember* member = idle.back();
      idle.pop_back();
      return member;
    }
  }
  auto* member = new TeamMember;
  auto body = [](void* m) -> void* {
    static_cast<TeamMember*>(m)->run();
    return nullptr;
  };
  if (start_thread("hloom member", body, member)) return member;
  delete member;
  return nullptr;
}

}  // namespace

bool start_thread(const char* name, void* (*body)(void*), void* argument) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 8 << 20);
  pthread_t thread;
  int failed = pthread_create(&thread, &attributes, body, argument);
  pthread_attr_destroy(&attributes);
  if (failed == 0) pthread_setname_np(thread, name);
  return failed == 0;
}

bool in_team() { return is_member; }

bool run_team(int count, const std::function<void(int)>& body) {
  std::vector<TeamMember*> members;
  for (int k = 1; k < count; ++k) {
    TeamMember* member = idle_member();
    if (member == nullptr) break;
    members.push_back(member);
  }
  bool complete = static_cast<int>(members.size()) == count - 1;
  if (complete) {
    for (int k = 1; k < count; ++k) {
      TeamMember* member = members[k - 1];
      std::lock_guard<std::mutex> guard(member->mutex);
      member->number = k;
      member->body = &body;
      member->changed.notify_all();
    }
    body(0);
    for (TeamMember* member : members) {
      std::unique_lock<std::mutex> lock(member->mutex);
      member->changed.wait(lock, [&] { return member->body == nullptr; });
    }
  }
  auto lock = locked_idle();
  idle.insert(idle.end(), members.begin(), members.end());
  return complete;
}

}  // namespace hloom
