// hloom_rt_use_fft: a kind of routines.
#include "../hloom_rt.h"
#include "routines.h"

extern "C" {
void hl_fft(void);
}

extern "C" void hloom_rt_use_fft(void) {
  static const hloom::rt::Routine kRoutines[] = {
      {"hl_fft", reinterpret_cast<void*>(&hl_fft)},
      {nullptr, nullptr},
  };
  hloom::rt::use(kRoutines);
}
