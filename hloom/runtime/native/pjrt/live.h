// How many objects of a kind there are, so that a test can show that none stays behind: counted in
// processes that begin with HLOOM_COUNT_OBJECTS, as each count is an atomic step.
#ifndef HLOOM_RUNTIME_PJRT_LIVE_H
#define HLOOM_RUNTIME_PJRT_LIVE_H

#include <stdint.h>
#include <stdlib.h>

#include <atomic>

namespace hloom::pjrt {

inline const bool is_counting_objects = getenv("HLOOM_COUNT_OBJECTS") != nullptr;

// A base of T: counts as one T as long as it lives.
template <typename T>
class Live {
 public:
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;

  static int64_t count() { return count_.load(std::memory_order_relaxed); }

 private:
  friend T;  // and nobody else, so that a T counts as a T
  Live() {
    if (is_counting_objects) count_.fetch_add(1, std::memory_order_relaxed);
  }
  ~Live() {
    if (is_counting_objects) count_.fetch_sub(1, std::memory_order_relaxed);
  }

  static inline std::atomic<int64_t> count_{0};
};

}  // namespace hloom::pjrt

#endif
