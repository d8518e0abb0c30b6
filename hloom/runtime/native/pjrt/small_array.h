// An array whose length is known when it is made, on the stack while it is short.
#ifndef HLOOM_RUNTIME_PJRT_SMALL_ARRAY_H
#define HLOOM_RUNTIME_PJRT_SMALL_ARRAY_H

#include <stddef.h>

#include <algorithm>
#include <memory>
#include <type_traits>

namespace hloom::pjrt {

template <typename T, size_t kFew = 64>
class SmallArray {
 public:
  // All zeros, or null.
  explicit SmallArray(size_t size) : size_(size) {
    if (size > kFew) many_.reset(new T[size]());
    else if constexpr (std::is_trivial_v<T>) std::fill_n(few_, size, T{});
  }
  SmallArray(const SmallArray&) = delete;
  SmallArray& operator=(const SmallArray&) = delete;

  T* data() { return many_ != nullptr ? many_.get() : few_; }
  T& operator[](size_t k) { return data()[k]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  size_t size() const { return size_; }

 private:
  size_t size_;
  std::unique_ptr<T[]> many_;
  T few_[kFew];
};

}  // namespace hloom::pjrt

#endif
