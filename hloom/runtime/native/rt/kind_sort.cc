// hloom_rt_use_sort: a kind of routines.
#include "../hloom_rt.h"
#include "routines.h"

extern "C" {
void hl_sort_keys(void);
void hl_sort_compare(void);
void hl_topk(void);
}

extern "C" void hloom_rt_use_sort(void) {
  static const hloom::rt::Routine kRoutines[] = {
      {"hl_sort_keys", reinterpret_cast<void*>(&hl_sort_keys)},
      {"hl_sort_compare", reinterpret_cast<void*>(&hl_sort_compare)},
      {"hl_topk", reinterpret_cast<void*>(&hl_topk)},
      {nullptr, nullptr},
  };
  hloom::rt::use(kRoutines);
}
