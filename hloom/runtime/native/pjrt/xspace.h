// Events as a serialized XSpace, the format of profiles that xprof reads.
#ifndef HLOOM_RUNTIME_PJRT_XSPACE_H
#define HLOOM_RUNTIME_PJRT_XSPACE_H

#include <stdint.h>

#include <map>
#include <string>
#include <vector>

namespace hloom::pjrt {

struct Event {
  std::string name, program;
  int64_t thread, begin_ns, end_ns;  // by the steady clock
  int64_t device, run, bytes;        // -1: there is none
  bool is_step;
};

// `threads` are their names; `wall_ns` is what the clock of the wall is ahead of the steady one.
std::string written(const std::vector<Event>& events, const std::map<int64_t, std::string>& threads,
                    int64_t wall_ns);

}  // namespace hloom::pjrt

#endif
