// The client, and what the plugin says of itself.
#include "client.h"

#include <string.h>

#include "joining.h"
#include "workers.h"

namespace hloom::pjrt {

const std::string kPlatform = "cpu";
std::string platform_version = "hloom";

namespace {

int64_t stablehlo_version[3] = {1, 0, 0};

}  // namespace

void set_platform_version(const char* text) { platform_version = text; }

void set_stablehlo_version(int64_t major, int64_t minor, int64_t patch) {
  stablehlo_version[0] = major;
  stablehlo_version[1] = minor;
  stablehlo_version[2] = patch;
}

// -- the client

PJRT_Error* Client_Create(PJRT_Client_Create_Args* a) {
  PJRT_Error* error = nullptr;
  auto topology = topology_from(a->create_options, a->num_options, &error);
  if (topology == nullptr) return error;
  auto* options = a->create_options;
  Processes* processes = nullptr;
  int process = topology->listed[0]->process;
  auto* given_size = option(options, a->num_options, "num_nodes", PJRT_NamedValue_kInt64);
  int64_t size = given_size == nullptr ? 1 : given_size->int64_value;
  if (size > 1) {
    std::vector<int64_t> counts;
    int64_t own = static_cast<int64_t>(topology->listed.size());
    if ((error = join_processes(*a, process, static_cast<int>(size), own, &processes, &counts)))
      return error;
    auto all = new_topology(std::move(counts));
    all->triple = topology->triple;
    all->cpu = topology->cpu;
    all->features = topology->features;
    topology = std::move(all);
  }
  auto* client = new PJRT_Client;
  client->processes = processes;
  if (auto* given = option(options, a->num_options, "asynchronous", PJRT_NamedValue_kBool))
    client->asynchronous = given->bool_value;
  if (auto* given =
          option(options, a->num_options, "max_inflight_computations", PJRT_NamedValue_kInt64))
    client->most_in_flight = given->int64_value < 1 ? 1 : given->int64_value;
  client->process = process;
  for (auto& description : topology->devices) {
    client->devices.push_back(new_device(client, description.get()));
    PJRT_Device* device = client->devices.back().get();
    client->listed.push_back(device);
    if (description->process != process) continue;
    client->addressable.push_back(device);
    client->memories.insert(client->memories.end(), device->listed, device->listed + kMemoryKinds);
  }
  client->topology = std::move(topology);
  a->client = client;
  return nullptr;
}

// Its devices stay: buffers and programs may outlive it at the end of a process.
PJRT_Error* Client_Destroy(PJRT_Client_Destroy_Args* a) {
  for (auto& device : a->client->devices) drain(device->programs);
  return nullptr;
}

HL_ANSWERS(Client_PlatformName, tell(kPlatform, &a->platform_name, &a->platform_name_size))
HL_ANSWERS(Client_ProcessIndex, a->process_index = a->client->process)
HL_ANSWERS(Client_PlatformVersion,
           tell(platform_version, &a->platform_version, &a->platform_version_size))
HL_ANSWERS(Client_TopologyDescription, a->topology = a->client->topology.get())
HL_ANSWERS(Client_Devices, tell(a->client->listed, &a->devices, &a->num_devices))
HL_ANSWERS(Client_AddressableDevices,
           tell(a->client->addressable, &a->addressable_devices, &a->num_addressable_devices))

static PJRT_Error* find(const std::vector<PJRT_Device*>& devices, int id, PJRT_Device** device) {
  if (id < 0 || static_cast<size_t>(id) >= devices.size())
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT, "no device %d: there are %zu [device]", id,
                    devices.size());
  *device = devices[id];
  return nullptr;
}

PJRT_Error* Client_LookupDevice(PJRT_Client_LookupDevice_Args* a) {
  return find(a->client->listed, a->id, &a->device);
}

PJRT_Error* Client_LookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args* a) {
  return find(a->client->addressable, a->local_hardware_id, &a->addressable_device);
}

HL_ANSWERS(Client_AddressableMemories,
           tell(a->client->memories, &a->addressable_memories, &a->num_addressable_memories))

PJRT_Error* Client_UpdateGlobalProcessInfo(PJRT_Client_UpdateGlobalProcessInfo_Args*) {
  return nullptr;  // processes hear of one another by themselves
}

PJRT_Error* Client_DefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args* a) {
  size_t wanted = static_cast<size_t>(a->num_replicas) * a->num_partitions;
  if (a->num_replicas < 1 || a->num_partitions < 1 || wanted > a->client->listed.size() ||
      wanted > a->default_assignment_size)
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                    "%d replicas of %d partitions need %zu devices; there are %zu [device-count]",
                    a->num_replicas, a->num_partitions, wanted, a->client->listed.size());
  for (size_t k = 0; k < wanted; ++k) a->default_assignment[k] = static_cast<int>(k);
  return nullptr;
}

// The host's memory needs no mapping.
PJRT_Error* Client_DmaMap(PJRT_Client_DmaMap_Args*) { return nullptr; }
PJRT_Error* Client_DmaUnmap(PJRT_Client_DmaUnmap_Args*) { return nullptr; }

PJRT_Error* Plugin_Initialize(PJRT_Plugin_Initialize_Args*) { return nullptr; }

PJRT_Error* Plugin_Attributes(PJRT_Plugin_Attributes_Args* a) {
  // The newest StableHLO that programs may be written in.
  static const auto value = [](const char* name, const int64_t* numbers, size_t count) {
    PJRT_NamedValue made{};
    made.struct_size = sizeof(PJRT_NamedValue);
    made.name = name;
    made.name_size = strlen(name);
    made.type = PJRT_NamedValue_kInt64List;
    made.int64_array_value = numbers;
    made.value_size = count;
    return made;
  };
  static const PJRT_NamedValue attributes[] = {
      value("stablehlo_current_version", stablehlo_version, 3)};
  a->attributes = attributes;
  a->num_attributes = 1;
  return nullptr;
}

}  // namespace hloom::pjrt
