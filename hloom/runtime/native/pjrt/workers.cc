// Threads of devices. They are never joined: at the end of a process the system takes them.
#include "workers.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include <condition_variable>
#include <deque>
#include <mutex>

namespace hloom::pjrt {

namespace {
thread_local bool is_worker = false;
}  // namespace

struct Queue {
  explicit Queue(int64_t most) : most(most) {}
  const int64_t most;
  std::mutex mutex;
  std::condition_variable filled, emptied;
  std::deque<std::function<void()>> jobs;
  int64_t pushed = 0, finished = 0;
  bool is_started = false;

  void run() {
    is_worker = true;
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      filled.wait(lock, [&] { return !jobs.empty(); });
      {
        std::function<void()> job = std::move(jobs.front());
        jobs.pop_front();
        lock.unlock();
        job();
      }
      lock.lock();
      ++finished;
      emptied.notify_all();
    }
  }
};

Queue* new_queue(int64_t most) { return new Queue(most); }

bool in_queue() { return is_worker || in_team(); }

// -- the end of Python

namespace {

std::atomic<bool> is_ending{false};
pthread_t ending_thread;

// Whether this is one of Python's threads that is not the one which ends it. Such a thread is killed
// when it asks for Python's lock, and the frames of jaxlib on its stack turn that into an abort.
bool has_to_stay() {
  if (!is_ending.load(std::memory_order_acquire) || in_queue()) return false;
  if (pthread_equal(pthread_self(), ending_thread)) return false;
  static auto state =
      reinterpret_cast<void* (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
  return state != nullptr && state() != nullptr;
}

[[noreturn]] void stay() {
  for (;;) pause();
}

}  // namespace

void end_of_python() {
  ending_thread = pthread_self();
  is_ending.store(true, std::memory_order_release);
}

void python_goes_on() { is_ending.store(false, std::memory_order_release); }

void stay_at_the_end() {
  if (has_to_stay()) stay();
}

void push(Queue* queue, std::function<void()> job) {
  std::unique_lock<std::mutex> lock(queue->mutex);
  if (!in_queue())
    queue->emptied.wait(lock,
                        [&] { return static_cast<int64_t>(queue->jobs.size()) < queue->most; });
  if (has_to_stay()) {
    lock.unlock();
    stay();
  }
  ++queue->pushed;
  queue->jobs.push_back(std::move(job));
  if (!queue->is_started) {
    queue->is_started = true;
    auto body = [](void* q) -> void* {
      static_cast<Queue*>(q)->run();
      return nullptr;
    };
    if (!start_thread("hloom device", body, queue)) {
      // No thread is to be had: the caller does the work.
      queue->is_started = false;
      std::function<void()> own = std::move(queue->jobs.back());
      queue->jobs.pop_back();
      lock.unlock();
      own();
      lock.lock();
      ++queue->finished;
    }
  }
  queue->filled.notify_one();
}

void drain(Queue* queue) {
  if (in_queue()) return;
  std::unique_lock<std::mutex> lock(queue->mutex);
  queue->emptied.wait(lock, [queue, all = queue->pushed] { return queue->finished >= all; });
}

}  // namespace hloom::pjrt
