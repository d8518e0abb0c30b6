// Working memory of a routine, given back at the end of its scope.
#pragma once
#include "hl.h"

namespace hloom {

// `count` values of T from the context's arena; null (and the error set) if there is no memory.
template <class T>
class Scratch {
 public:
  Scratch(hl_context* context, int64_t count)
      : context_(context),
        data_(static_cast<T*>(hl_alloc(context, (count > 0 ? count : 1) * (int64_t)sizeof(T)))) {}
  ~Scratch() { hl_free(context_, data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  operator T*() const { return data_; }
  T* get() const { return data_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  hl_context* context_;
  T* data_;
};

}  // namespace hloom
