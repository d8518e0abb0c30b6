// The host's callbacks of one execution: who takes what programs send, and gives what they receive.
#ifndef HLOOM_RUNTIME_PJRT_HOST_CALLBACKS_H
#define HLOOM_RUNTIME_PJRT_HOST_CALLBACKS_H

#include <vector>

#include "../host_transfers.h"
#include "objects.h"

namespace hloom::pjrt {

// Copies of the caller's lists for one device, which need not outlive the call; what their
// `user_arg` points to has to live until the execution is done.
struct HostCallbacks {
  std::vector<PJRT_SendCallbackInfo> sends;
  std::vector<PJRT_RecvCallbackInfo> receives;

  HostCallbacks() = default;
  HostCallbacks(const PJRT_ExecuteOptions* options, size_t device);
  bool empty() const { return sends.empty() && receives.empty(); }
  // What the context calls; this has to stay where it is meanwhile.
  hl_host_transfers transfers() const;
};

}  // namespace hloom::pjrt

#endif
