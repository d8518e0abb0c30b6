// Threads of devices. They are never joined: at the end of a process the system takes them.
#include "workers.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>

namespace hl::pjrt {

namespace {
thread_local bool is_worker = false;
}  // namespace

struct Queue {
  explicit Queue(int64_t most) : most(most) {}
  const int64_t most;
  std::mutex mutex;
  std::condition_variable filled, emptied;
  std::deque<std::function<void()>> jobs;
  bool is_started = false, is_running = false;

  void run() {
    is_worker = true;
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      filled.wait(lock, [&] { return !jobs.empty(); });
      {
        std::function<void()> job = std::move(jobs.front());
        jobs.pop_front();
        is_running = true;
        lock.unlock();
        job();
      }
      lock.lock();
      is_running = false;
      emptied.notify_all();
    }
  }
};

Queue* new_queue(int64_t most) { return new Queue(most); }

bool in_queue() { return is_worker; }

void push(Queue* queue, std::function<void()> job) {
  std::unique_lock<std::mutex> lock(queue->mutex);
  if (!is_worker)
    queue->emptied.wait(lock,
                        [&] { return static_cast<int64_t>(queue->jobs.size()) < queue->most; });
  queue->jobs.push_back(std::move(job));
  if (!queue->is_started) {
    queue->is_started = true;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 8 << 20);  // LAPACK and Python run on it, too
    pthread_t thread;
    auto body = [](void* q) -> void* {
      static_cast<Queue*>(q)->run();
      return nullptr;
    };
    if (pthread_create(&thread, &attributes, body, queue) != 0) {
      // No thread is to be had: the caller does the work.
      queue->is_started = false;
      std::function<void()> own = std::move(queue->jobs.back());
      queue->jobs.pop_back();
      lock.unlock();
      own();
      lock.lock();
    }
    pthread_attr_destroy(&attributes);
  }
  queue->filled.notify_one();
}

void drain(Queue* queue) {
  if (is_worker) return;
  std::unique_lock<std::mutex> lock(queue->mutex);
  queue->emptied.wait(lock, [&] { return queue->jobs.empty() && !queue->is_running; });
}

}  // namespace hl::pjrt
