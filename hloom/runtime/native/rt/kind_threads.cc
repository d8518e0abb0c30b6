// hloom_rt_use_threads: a kind of routines.
#include "../hloom_rt.h"
#include "routines.h"

extern "C" {
void hl_run_concurrently(void);
}

extern "C" void hloom_rt_use_threads(void) {
  static const hloom::rt::Routine kRoutines[] = {
      {"hl_run_concurrently", reinterpret_cast<void*>(&hl_run_concurrently)},
      {nullptr, nullptr},
  };
  hloom::rt::use(kRoutines);
}
