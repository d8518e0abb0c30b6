// A counted thing, held: released when the handle goes. For whatever has `retained` and `release`.
// Nothing else calls these two, but where an object goes to the caller of the ABI or comes from it.
#ifndef HLOOM_RUNTIME_PJRT_HANDLE_H
#define HLOOM_RUNTIME_PJRT_HANDLE_H

#include <cstddef>
#include <utility>

#include "../loaded_program.h"

struct PJRT_Event;

namespace hloom::pjrt {

// Their namespace is not this one, so these must be known before the template.
PJRT_Event* retained(PJRT_Event* event);
void release(PJRT_Event* event);
inline hl_program* retained(hl_program* program) { return hl_program_retain(program); }
inline void release(hl_program* program) { hl_program_release(program); }

template <typename T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  // Takes over what the caller holds.
  explicit Ref(T* held) : held_(held) {}
  Ref(Ref&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    if (this != &other) reset(std::exchange(other.held_, nullptr));
    return *this;
  }
  Ref(const Ref& other) : held_(other.held_ == nullptr ? nullptr : retained(other.held_)) {}
  Ref& operator=(const Ref& other) {
    if (this != &other) *this = Ref(other);
    return *this;
  }
  ~Ref() { reset(); }

  // Holds what somebody else holds, too.
  static Ref of(T* other) { return Ref(other == nullptr ? nullptr : retained(other)); }

  void reset(T* held = nullptr) {
    if (T* before = std::exchange(held_, held); before != nullptr) release(before);
  }
  // Whoever calls this holds it from here on.
  [[nodiscard]] T* passed_on() { return std::exchange(held_, nullptr); }

  T* get() const { return held_; }
  T* operator->() const { return held_; }
  T& operator*() const { return *held_; }
  bool operator==(std::nullptr_t) const { return held_ == nullptr; }
  explicit operator bool() const { return held_ != nullptr; }

 private:
  T* held_ = nullptr;
};

}  // namespace hloom::pjrt

#endif
