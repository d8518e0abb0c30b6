#include "lapack.h"

#include <stdlib.h>
#include <string.h>

#include <mutex>

#include "fork.h"

namespace hloom {
namespace {

struct Routine {
  char name[16];
  void* function;
  int64_t integer_bytes;
};

constexpr int kMost = 256;
Routine routines[kMost];
int many = 0;

std::mutex& routines_mutex() {
  static std::mutex& mutex = []() -> std::mutex& {
    auto* made = new std::mutex;
    hloom::free_in_forks(made->native_handle());
    return *made;
  }();
  return mutex;
}

}  // namespace
}  // namespace hloom

HL_API int32_t hl_lapack_register(const char* name, void* function, int64_t integer_bytes) {
  using namespace hloom;
  if (strlen(name) >= sizeof routines[0].name || (integer_bytes != 4 && integer_bytes != 8))
    return HL_INVALID_ARGUMENT;
  std::lock_guard<std::mutex> lock(routines_mutex());
  int at = 0;
  while (at < many && strcmp(routines[at].name, name) != 0) at++;
  if (at == kMost) return HL_RESOURCE_EXHAUSTED;
  strcpy(routines[at].name, name);
  routines[at].function = function, routines[at].integer_bytes = integer_bytes;
  if (at == many) many++;
  return HL_OK;
}

HL_API void* hl_lapack_find(const char* name, int64_t* integer_bytes) {
  using namespace hloom;
  std::lock_guard<std::mutex> lock(routines_mutex());
  for (int i = 0; i < many; i++)
    if (!strcmp(routines[i].name, name)) {
      if (integer_bytes) *integer_bytes = routines[i].integer_bytes;
      return routines[i].function;
    }
  return nullptr;
}

namespace hloom {
namespace {

// How many want a single thread now, and how many threads there were before the first of them.
int singles = 0;
int threads_before = 1;

std::mutex& threads_mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

}  // namespace

LapackThreads::LapackThreads(bool single) : single_(single) {
  if (!single_) return;
  auto* get = (int (*)())hl_lapack_find("get_num_threads", nullptr);
  auto* set = (void (*)(int))hl_lapack_find("set_num_threads", nullptr);
  single_ = get != nullptr && set != nullptr;
  if (!single_) return;
  std::lock_guard<std::mutex> lock(threads_mutex());
  if (singles++ != 0) return;
  threads_before = get();
  if (threads_before > 1) set(1);
}

LapackThreads::~LapackThreads() {
  if (!single_) return;
  auto* set = (void (*)(int))hl_lapack_find("set_num_threads", nullptr);
  std::lock_guard<std::mutex> lock(threads_mutex());
  if (--singles == 0 && threads_before > 1 && set != nullptr) set(threads_before);
}

}  // namespace hloom
