// hloom_rt_use_dynamic: a kind of routines.
#include "../hloom_rt.h"
#include "routines.h"

extern "C" {
void hl_pad_ordered(void);
void hl_slice_ordered(void);
}

extern "C" void hloom_rt_use_dynamic(void) {
  static const hloom::rt::Routine kRoutines[] = {
      {"hl_pad_ordered", reinterpret_cast<void*>(&hl_pad_ordered)},
      {"hl_slice_ordered", reinterpret_cast<void*>(&hl_slice_ordered)},
      {nullptr, nullptr},
  };
  hloom::rt::use(kRoutines);
}
