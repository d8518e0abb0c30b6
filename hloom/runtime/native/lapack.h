// LAPACK routines that were found at run time, by name; see hloom/runtime/lapack.py.
#pragma once
#include "hl.h"

#ifdef __cplusplus
extern "C" {
#endif

// Name without prefix or suffix ("spotrf"); integer_bytes is 4 or 8. A null function removes it.
int32_t hl_lapack_register(const char* name, void* function, int64_t integer_bytes);
// "set_num_threads" and "get_num_threads" are those of OpenBLAS, if that is what was found.
void* hl_lapack_find(const char* name, int64_t* integer_bytes);

#ifdef __cplusplus
}

namespace hloom {

// While one of these lives that was made with `single`, LAPACK starts no threads.
class LapackThreads {
 public:
  explicit LapackThreads(bool single);
  ~LapackThreads();
  LapackThreads(const LapackThreads&) = delete;

 private:
  bool single_;
};

}  // namespace hloom
#endif
