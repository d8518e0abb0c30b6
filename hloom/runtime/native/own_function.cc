// What compiled code may call, where this is a shared library: rt/routines.cc has it where it is not.
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "linker.h"

namespace hloom {

// What objects may name without a definition: the C functions that LLVM itself calls, and the
// exported functions of this library.
uint64_t own_function(std::string_view name) {
  if (name == "memcpy") return reinterpret_cast<uint64_t>(&memcpy);
  if (name == "memset") return reinterpret_cast<uint64_t>(&memset);
  if (name == "memmove") return reinterpret_cast<uint64_t>(&memmove);
  if (name == "memcmp") return reinterpret_cast<uint64_t>(&memcmp);
  if (name.substr(0, 3) != "hl_") return 0;
  static void* self = [] {
    Dl_info info;
    void* map = nullptr;
    if (dladdr1(reinterpret_cast<void*>(&own_function), &info, &map, RTLD_DL_LINKMAP) == 0)
      return static_cast<void*>(nullptr);
    return map;  // in glibc a handle is its link map
  }();
  return self == nullptr ? 0 : reinterpret_cast<uint64_t>(dlsym(self, name.data()));
}

}  // namespace hloom
