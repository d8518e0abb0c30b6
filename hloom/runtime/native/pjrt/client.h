// What clients are made of.
#ifndef HLOOM_RUNTIME_PJRT_CLIENT_H
#define HLOOM_RUNTIME_PJRT_CLIENT_H

#include "entries.h"
#include "program.h"

namespace hloom::pjrt {

extern const std::string kPlatform;
extern std::string platform_version;

// The option of this name and type; null: it is not given.
const PJRT_NamedValue* option(const PJRT_NamedValue* options, size_t count, const char* name,
                              PJRT_NamedValue_Type type);
// Why these options of clients and topologies cannot be; null: they can.
PJRT_Error* wrong_option(const PJRT_NamedValue* options, size_t count);
// A topology as options ask for it: `topology` is a saved one, else the parts one by one. Null, with
// an error: there is no such topology.
std::unique_ptr<PJRT_TopologyDescription> topology_from(const PJRT_NamedValue* options,
                                                        size_t count, PJRT_Error** error);
// The devices of several processes, each of which has so many.
std::unique_ptr<PJRT_TopologyDescription> new_topology(std::vector<int64_t> counts);
// A device with its memories and queues.
std::unique_ptr<PJRT_Device> new_device(PJRT_Client* client, PJRT_DeviceDescription* description);

}  // namespace hloom::pjrt

#endif
