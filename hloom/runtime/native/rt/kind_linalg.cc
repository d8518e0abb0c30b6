// hloom_rt_use_linalg: a kind of routines.
#include "../hloom_rt.h"
#include "routines.h"
#include "../library_calls.h"

extern "C" {
void hl_cholesky(void);
void hl_triangular_solve(void);
}

extern "C" void hloom_rt_use_linalg(void) {
  static const hloom::rt::Routine kRoutines[] = {
      {"hl_cholesky", reinterpret_cast<void*>(&hl_cholesky)},
      {"hl_triangular_solve", reinterpret_cast<void*>(&hl_triangular_solve)},
      {nullptr, nullptr},
  };
  // Their members come with them, so that custom_call.cc finds them.
  static const void* volatile kept[] = {reinterpret_cast<void*>(&hloom::linalg_calls),
                                        reinterpret_cast<void*>(&hloom::library_calls)};
  static_cast<void>(kept[0]);
  hloom::rt::use(kRoutines);
}
