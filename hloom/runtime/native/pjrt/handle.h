// A counted thing, held: released when the handle goes. For whatever has `retained` and `release`.
#ifndef HLOOM_RUNTIME_PJRT_HANDLE_H
#define HLOOM_RUNTIME_PJRT_HANDLE_H

#include <utility>

struct PJRT_Event;

namespace hloom::pjrt {

// Its namespace is not theirs, so they must be known before the template.
PJRT_Event* retained(PJRT_Event* event);
void release(PJRT_Event* event);

template <typename T>
class Ref {
 public:
  Ref() = default;
  // Takes over what the caller holds.
  explicit Ref(T* held) : held_(held) {}
  Ref(Ref&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    if (this != &other) reset(std::exchange(other.held_, nullptr));
    return *this;
  }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() { reset(); }

  // Holds what somebody else holds, too.
  static Ref of(T* other) { return Ref(other == nullptr ? nullptr : retained(other)); }
  Ref again() const { return of(held_); }

  void reset(T* held = nullptr) {
    if (T* before = std::exchange(held_, held); before != nullptr) release(before);
  }
  // Whoever calls this holds it from here on.
  [[nodiscard]] T* passed_on() { return std::exchange(held_, nullptr); }

  T* get() const { return held_; }
  T* operator->() const { return held_; }
  T& operator*() const { return *held_; }
  explicit operator bool() const { return held_ != nullptr; }

 private:
  T* held_ = nullptr;
};

}  // namespace hloom::pjrt

#endif
