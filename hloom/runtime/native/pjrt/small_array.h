// An array whose length is known when it is made, on the stack while it is short.
#ifndef HLOOM_RUNTIME_PJRT_SMALL_ARRAY_H
#define HLOOM_RUNTIME_PJRT_SMALL_ARRAY_H

#include <stddef.h>

#include <memory>
#include <new>

namespace hloom::pjrt {

template <typename T, size_t kFew = 64>
class SmallArray {
 public:
  // All zeros, or null. What is beyond the size is not touched: clearing it takes longer than most of
  // a small call.
  explicit SmallArray(size_t size)
      : size_(size),
        data_(size > kFew ? static_cast<T*>(operator new(size * sizeof(T)))
                          : reinterpret_cast<T*>(few_)) {
    for (size_t k = 0; k < size; ++k) new (data_ + k) T();
  }
  ~SmallArray() {
    std::destroy_n(data_, size_);
    if (size_ > kFew) operator delete(data_);
  }
  SmallArray(const SmallArray&) = delete;
  SmallArray& operator=(const SmallArray&) = delete;

  T* data() { return data_; }
  T& operator[](size_t k) { return data_[k]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  size_t size() const { return size_; }

 private:
  size_t size_;
  T* data_;
  alignas(T) unsigned char few_[kFew * sizeof(T)];
};

}  // namespace hloom::pjrt

#endif
