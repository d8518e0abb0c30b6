// The registry of routines: names to functions of this program.
#include "routines.h"

#include <string.h>

#include <atomic>

#include "../call_site.h"
#include "../hl.h"
#include "../joined.h"
#include "../linker.h"

// Of context.cc, region.cc and rng_state.cc, which compiled code calls without a header.
extern "C" {
void hl_rng_get_and_update_state(void);
int32_t hl_set_error_text(hl_context*, int32_t, const char*);
}

namespace hloom {
namespace rt {
namespace {

const Routine kCore[] = {
    {"memcpy", reinterpret_cast<void*>(&memcpy)},
    {"memset", reinterpret_cast<void*>(&memset)},
    {"memmove", reinterpret_cast<void*>(&memmove)},
    {"memcmp", reinterpret_cast<void*>(&memcmp)},
    {"hl_parallel_for", reinterpret_cast<void*>(&hl_parallel_for)},
    {"hl_parallel_for_ns", reinterpret_cast<void*>(&hl_parallel_for_ns)},
    {"hl_alloc", reinterpret_cast<void*>(&hl_alloc)},
    {"hl_free", reinterpret_cast<void*>(&hl_free)},
    {"hl_set_error", reinterpret_cast<void*>(&hl_set_error)},
    {"hl_set_error_text", reinterpret_cast<void*>(&hl_set_error_text)},
    {"hl_rng_get_and_update_state", reinterpret_cast<void*>(&hl_rng_get_and_update_state)},
    {"hl_call_site_run", reinterpret_cast<void*>(&hl_call_site_run)},
    {nullptr, nullptr},
};

constexpr int kMostKinds = 16;
std::atomic<const Routine*> kinds[kMostKinds] = {kCore};

struct Owner {
  const char *name, *use;
};
// Which kind has a routine.
const Owner kOwners[] = {
    {"hl_sort_keys", "hloom_rt_use_sort()"},
    {"hl_sort_compare", "hloom_rt_use_sort()"},
    {"hl_topk", "hloom_rt_use_sort()"},
    {"hl_fft", "hloom_rt_use_fft()"},
    {"hl_cholesky", "hloom_rt_use_linalg()"},
    {"hl_triangular_solve", "hloom_rt_use_linalg()"},
    {"hl_pad_ordered", "hloom_rt_use_dynamic()"},
    {"hl_slice_ordered", "hloom_rt_use_dynamic()"},
    {"hl_run_concurrently", "hloom_rt_use_threads()"},
    {"hl_collective_start", "hloom_rt_use_devices()"},
    {"hl_collective_done", "hloom_rt_use_devices()"},
    {"hl_collective", "hloom_rt_use_devices()"},
    {"hl_send", "hloom_rt_use_devices()"},
    {"hl_receive", "hloom_rt_use_devices()"},
    {"hl_device_number", "hloom_rt_use_devices()"},
};

}  // namespace

void use(const Routine* routines) {
  for (auto& slot : kinds) {
    const Routine* there = nullptr;
    if (slot.compare_exchange_strong(there, routines) || there == routines) return;
  }
}

std::string lacking(const std::string& problem) {
  for (const Owner& each : kOwners)
    if (problem.find(joined({"symbol ", each.name, " is not defined"})) != problem.npos)
      return joined({"the program needs ", each.name, ", which is not linked in: call ", each.use,
                     " before it is loaded"});
  size_t at = problem.find("symbol hl_");
  if (at == problem.npos) return "";
  size_t end = problem.find(' ', at + 7);
  return joined({"the program needs ", std::string_view(problem).substr(at + 7, end - at - 7),
                 ", which this runtime has not (infeed and outfeed, sends to the host)"});
}

}  // namespace rt

uint64_t own_function(std::string_view name) {
  for (const auto& slot : rt::kinds)
    for (const rt::Routine* r = slot.load(); r != nullptr && r->name != nullptr; ++r)
      if (name == r->name) return reinterpret_cast<uint64_t>(r->function);
  return 0;
}

}  // namespace hloom
