// Clients of several processes: how they find one another, and the runs that they make together.
#ifndef HLOOM_RUNTIME_PJRT_JOINING_H
#define HLOOM_RUNTIME_PJRT_JOINING_H

#include <memory>
#include <vector>

#include "../communicator_far.h"
#include "objects.h"

namespace hloom::pjrt {

// Joins the `size` processes of a run, of which this is number `rank`, through the key-value store
// that the caller of PJRT_Client_Create brings; waits for them. `counts`: how many devices each has.
PJRT_Error* join_processes(const PJRT_Client_Create_Args& arguments, int rank, int size,
                           int64_t device_count, Processes** processes,
                           std::vector<int64_t>* counts);

// Letters of the next run of a program on these devices, which are in these processes. All processes
// start the runs on the same devices in the same order.
std::unique_ptr<hloom::Span> next_run(const PJRT_LoadedExecutable& executable);

}  // namespace hloom::pjrt

#endif
