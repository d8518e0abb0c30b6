// The table, and what stands in for functions that nobody has written.
#include <algorithm>
#include <iterator>

#include "entries.h"
#include "program.h"

namespace hloom::pjrt {

// A strong definition elsewhere takes the place of the weak one.
#define HL_MISSING(name)                                                       \
  __attribute__((weak)) PJRT_Error* name(PJRT_##name##_Args*) {                \
    return failure(PJRT_Error_Code_UNIMPLEMENTED,                              \
                   "hloom does not implement PJRT_" #name " [unimplemented]"); \
  }
PJRT_TABLE(HL_MISSING)
#undef HL_MISSING

namespace {

PJRT_Api made() {
  PJRT_Api api{};
  api.struct_size = sizeof(PJRT_Api);
  api.extension_start = extensions();
  api.pjrt_api_version = {sizeof(PJRT_Api_Version), nullptr, PJRT_API_MAJOR, PJRT_API_MINOR};
  api.PJRT_Error_Destroy = Error_Destroy;
  api.PJRT_Error_Message = Error_Message;
#define HL_FILL(name) api.PJRT_##name = name;
  PJRT_TABLE(HL_FILL)
#undef HL_FILL
  return api;
}

}  // namespace
}  // namespace hloom::pjrt

// What hosts of PJRT plugins look for.
HL_API const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = hloom::pjrt::made();
  return &api;
}

HL_API int64_t hl_pjrt_live_objects(int64_t* counts, int64_t most) {
  using namespace hloom::pjrt;
  const int64_t all[] = {Live<PJRT_Buffer>::count(),     Live<Storage>::count(),
                         Live<PJRT_Event>::count(),      Live<PJRT_LoadedExecutable>::count(),
                         Live<PJRT_Executable>::count(), Live<Program>::count(),
                         Live<Failure>::count()};
  int64_t count = static_cast<int64_t>(std::size(all));
  std::copy_n(all, count < most ? count : most, counts);
  return count;
}
