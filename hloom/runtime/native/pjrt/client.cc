// The client, its devices and memories, and topologies.
#include <stdlib.h>
#include <string.h>

#include "entries.h"
#include "program.h"
#include "workers.h"

namespace hl::pjrt {

const char* const kKinds[kMemoryKinds] = {"device", "pinned_host", "unpinned_host"};

int kind_id_of(const std::string& kind) {
  for (int k = 0; k < kMemoryKinds; ++k)
    if (kind == kKinds[k]) return k;
  return -1;
}

namespace {

const std::string kPlatform = "cpu";

const PJRT_NamedValue* option(const PJRT_NamedValue* options, size_t count, const char* name,
                              PJRT_NamedValue_Type type) {
  for (size_t k = 0; k < count; ++k)
    if (std::string(options[k].name, options[k].name_size) == name && options[k].type == type)
      return options + k;
  return nullptr;
}

// -- memories

void* user_data(PJRT_Memory* memory, const void* key) {
  MemorySpace* space = of(memory);
  std::lock_guard<std::mutex> guard(space->mutex);
  auto at = space->user_data.find(key);
  return at == space->user_data.end() ? nullptr : at->second.value;
}

void set_user_data(PJRT_Memory* memory, const void* key, void* value, void (*deleter)(void*)) {
  MemorySpace* space = of(memory);
  MemorySpace::UserData old{};
  {
    std::lock_guard<std::mutex> guard(space->mutex);
    auto& slot = space->user_data[key];
    old = slot;
    slot = {value, deleter};
  }
  if (old.value != nullptr && old.deleter != nullptr) old.deleter(old.value);
}

const PJRT_Memory_FunctionTable kMemoryFunctions = {sizeof(PJRT_Memory_FunctionTable), nullptr,
                                                    sizeof(MemorySpace), user_data, set_user_data};

std::unique_ptr<MemorySpace> new_memory(PJRT_Device* device, int kind) {
  auto made = std::make_unique<MemorySpace>();
  made->vtable = &kMemoryFunctions;
  made->id = device->description->id * kMemoryKinds + kind;
  made->kind_id = kind;
  made->kind = kKinds[kind];
  made->device = device;
  std::string upper = kKinds[kind];
  for (char& c : upper) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  made->text = "CPU_" + upper + "_" + std::to_string(made->id);
  made->debug_text = "HloomMemory(id=" + std::to_string(made->id) + ", kind=" + kKinds[kind] + ")";
  return made;
}

// -- topologies

std::unique_ptr<PJRT_TopologyDescription> new_topology(int64_t device_count, int process) {
  auto made = std::make_unique<PJRT_TopologyDescription>();
  for (int64_t k = 0; k < device_count; ++k) {
    auto device = std::make_unique<PJRT_DeviceDescription>();
    device->id = static_cast<int>(k);
    device->process = process;
    device->text = "CpuDevice(id=" + std::to_string(k) + ")";
    device->debug_text = "HLOOM_CPU_" + std::to_string(k);
    made->listed.push_back(device.get());
    made->devices.push_back(std::move(device));
  }
  return made;
}

// The saved form: lines of a name and what it is.
std::string topology_text(const PJRT_TopologyDescription& topology) {
  return "hloom topology 1\ndevices " + std::to_string(topology.devices.size()) + "\ntriple " +
         topology.triple + "\nfeatures " + topology.features + "\n";
}

// Null, with an error: the text is no topology.
std::unique_ptr<PJRT_TopologyDescription> topology_of(const std::string& text, PJRT_Error** error) {
  std::unordered_map<std::string, std::string> lines;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    std::string line = text.substr(at, end - at);
    size_t space = line.find(' ');
    if (space != std::string::npos) lines[line.substr(0, space)] = line.substr(space + 1);
    at = end + 1;
  }
  long count = strtol(lines["devices"].c_str(), nullptr, 10);
  if (lines["hloom"] != "topology 1" || count < 1 || count > 4096) {
    *error = failure(PJRT_Error_Code_INVALID_ARGUMENT,
                     "these bytes are no topology of hloom [topology]");
    return nullptr;
  }
  auto made = new_topology(count, 0);
  made->triple = lines["triple"];
  made->features = lines["features"];
  return made;
}

// A topology as options ask for it: `topology` is a saved one, else the parts one by one.
std::unique_ptr<PJRT_TopologyDescription> topology_from(const PJRT_NamedValue* options,
                                                        size_t count, PJRT_Error** error) {
  if (auto* saved = option(options, count, "topology", PJRT_NamedValue_kString))
    return topology_of(std::string(saved->string_value, saved->value_size), error);
  int64_t device_count = 1;
  if (auto* given = option(options, count, "cpu_device_count", PJRT_NamedValue_kInt64))
    device_count = given->int64_value;
  int64_t process = 0;
  if (auto* given = option(options, count, "process_id", PJRT_NamedValue_kInt64))
    process = given->int64_value;
  if (device_count < 1 || device_count > 4096) {
    *error = failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                      "cpu_device_count is %lld; 1 to 4096 can be [device-count]",
                      static_cast<long long>(device_count));
    return nullptr;
  }
  auto made = new_topology(device_count, static_cast<int>(process));
  if (auto* given = option(options, count, "triple", PJRT_NamedValue_kString))
    made->triple.assign(given->string_value, given->value_size);
  if (auto* given = option(options, count, "features", PJRT_NamedValue_kString))
    made->features.assign(given->string_value, given->value_size);
  return made;
}

std::string version_text = "hloom";
int64_t stablehlo_version[3] = {1, 0, 0};

}  // namespace

void set_platform_version(const char* text) { version_text = text; }

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
  auto* client = new PJRT_Client;
  auto* options = a->create_options;
  if (auto* given = option(options, a->num_options, "asynchronous", PJRT_NamedValue_kBool))
    client->asynchronous = given->bool_value;
  if (auto* given =
          option(options, a->num_options, "max_inflight_computations", PJRT_NamedValue_kInt64))
    client->most_in_flight = given->int64_value < 1 ? 1 : given->int64_value;
  client->process = topology->devices[0]->process;
  for (auto& description : topology->devices) {
    auto device = std::make_unique<PJRT_Device>();
    device->client = client;
    device->description = description.get();
    device->programs = new_queue(client->most_in_flight);
    device->callers = new_queue(client->most_in_flight);
    remember_queue(device->programs);
    remember_queue(device->callers);
    for (int k = 0; k < kMemoryKinds; ++k) {
      device->memories[k] = new_memory(device.get(), k);
      device->listed[k] = device->memories[k].get();
      client->memories.push_back(device->listed[k]);
    }
    client->listed.push_back(device.get());
    client->devices.push_back(std::move(device));
  }
  client->topology = std::move(topology);
  a->client = client;
  return nullptr;
}

// Its devices stay: buffers and programs may outlive it at the end of a process.
PJRT_Error* Client_Destroy(PJRT_Client_Destroy_Args* a) {
  for (auto& device : a->client->devices) {
    drain(device->programs);
    drain(device->callers);
  }
  return nullptr;
}

PJRT_Error* Client_PlatformName(PJRT_Client_PlatformName_Args* a) {
  a->platform_name = kPlatform.data();
  a->platform_name_size = kPlatform.size();
  return nullptr;
}

PJRT_Error* Client_ProcessIndex(PJRT_Client_ProcessIndex_Args* a) {
  a->process_index = a->client->process;
  return nullptr;
}

PJRT_Error* Client_PlatformVersion(PJRT_Client_PlatformVersion_Args* a) {
  a->platform_version = version_text.data();
  a->platform_version_size = version_text.size();
  return nullptr;
}

PJRT_Error* Client_TopologyDescription(PJRT_Client_TopologyDescription_Args* a) {
  a->topology = a->client->topology.get();
  return nullptr;
}

PJRT_Error* Client_Devices(PJRT_Client_Devices_Args* a) {
  a->devices = a->client->listed.data();
  a->num_devices = a->client->listed.size();
  return nullptr;
}

PJRT_Error* Client_AddressableDevices(PJRT_Client_AddressableDevices_Args* a) {
  a->addressable_devices = a->client->listed.data();
  a->num_addressable_devices = a->client->listed.size();
  return nullptr;
}

static PJRT_Error* find(PJRT_Client* client, int id, PJRT_Device** device) {
  if (id < 0 || static_cast<size_t>(id) >= client->listed.size())
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT, "no device %d: there are %zu [device]", id,
                    client->listed.size());
  *device = client->listed[id];
  return nullptr;
}

PJRT_Error* Client_LookupDevice(PJRT_Client_LookupDevice_Args* a) {
  return find(a->client, a->id, &a->device);
}

PJRT_Error* Client_LookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args* a) {
  return find(a->client, a->local_hardware_id, &a->addressable_device);
}

PJRT_Error* Client_AddressableMemories(PJRT_Client_AddressableMemories_Args* a) {
  a->addressable_memories = a->client->memories.data();
  a->num_addressable_memories = a->client->memories.size();
  return nullptr;
}

PJRT_Error* Client_UpdateGlobalProcessInfo(PJRT_Client_UpdateGlobalProcessInfo_Args*) {
  return nullptr;  // there are no other processes to hear of
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
  static const PJRT_NamedValue attributes[] = {value("stablehlo_current_version", stablehlo_version, 3)};
  a->attributes = attributes;
  a->num_attributes = 1;
  return nullptr;
}

// -- devices

PJRT_Error* DeviceDescription_Id(PJRT_DeviceDescription_Id_Args* a) {
  a->id = a->device_description->id;
  return nullptr;
}

PJRT_Error* DeviceDescription_ProcessIndex(PJRT_DeviceDescription_ProcessIndex_Args* a) {
  a->process_index = a->device_description->process;
  return nullptr;
}

PJRT_Error* DeviceDescription_Attributes(PJRT_DeviceDescription_Attributes_Args* a) {
  a->attributes = nullptr;
  a->num_attributes = 0;
  return nullptr;
}

PJRT_Error* DeviceDescription_Kind(PJRT_DeviceDescription_Kind_Args* a) {
  a->device_kind = a->device_description->kind.data();
  a->device_kind_size = a->device_description->kind.size();
  return nullptr;
}

PJRT_Error* DeviceDescription_DebugString(PJRT_DeviceDescription_DebugString_Args* a) {
  a->debug_string = a->device_description->debug_text.data();
  a->debug_string_size = a->device_description->debug_text.size();
  return nullptr;
}

PJRT_Error* DeviceDescription_ToString(PJRT_DeviceDescription_ToString_Args* a) {
  a->to_string = a->device_description->text.data();
  a->to_string_size = a->device_description->text.size();
  return nullptr;
}

PJRT_Error* Device_GetDescription(PJRT_Device_GetDescription_Args* a) {
  a->device_description = a->device->description;
  return nullptr;
}

PJRT_Error* Device_IsAddressable(PJRT_Device_IsAddressable_Args* a) {
  a->is_addressable = true;
  return nullptr;
}

PJRT_Error* Device_LocalHardwareId(PJRT_Device_LocalHardwareId_Args* a) {
  a->local_hardware_id = a->device->description->id;
  return nullptr;
}

PJRT_Error* Device_AddressableMemories(PJRT_Device_AddressableMemories_Args* a) {
  a->memories = a->device->listed;
  a->num_memories = kMemoryKinds;
  return nullptr;
}

PJRT_Error* Device_DefaultMemory(PJRT_Device_DefaultMemory_Args* a) {
  a->memory = a->device->listed[0];
  return nullptr;
}

PJRT_Error* Device_GetAttributes(PJRT_Device_GetAttributes_Args* a) {
  a->attributes = nullptr;
  a->num_attributes = 0;
  a->device_attributes = nullptr;
  a->attributes_deleter = [](PJRT_Device_Attributes*) {};
  return nullptr;
}

// All devices share the memory of the process.
PJRT_Error* Device_MemoryStats(PJRT_Device_MemoryStats_Args* a) {
  int64_t numbers[8];
  hl_arena_statistics(nullptr, numbers);
  a->bytes_in_use = numbers[0];
  a->peak_bytes_in_use = numbers[1];
  a->pool_bytes = numbers[0] + numbers[2];
  a->num_allocs = numbers[4];
  a->bytes_limit = numbers[6];
  a->peak_bytes_in_use_is_set = a->pool_bytes_is_set = a->num_allocs_is_set = true;
  a->bytes_limit_is_set = true;
  a->largest_alloc_size_is_set = a->bytes_reserved_is_set = a->peak_bytes_reserved_is_set = false;
  a->bytes_reservable_limit_is_set = a->largest_free_block_bytes_is_set = false;
  a->peak_pool_bytes_is_set = false;
  return nullptr;
}

// -- memories

PJRT_Error* Memory_Id(PJRT_Memory_Id_Args* a) {
  a->id = of(a->memory)->id;
  return nullptr;
}

PJRT_Error* Memory_Kind(PJRT_Memory_Kind_Args* a) {
  a->kind = of(a->memory)->kind;
  a->kind_size = strlen(a->kind);
  return nullptr;
}

PJRT_Error* Memory_Kind_Id(PJRT_Memory_Kind_Id_Args* a) {
  a->kind_id = of(a->memory)->kind_id;
  return nullptr;
}

PJRT_Error* Memory_DebugString(PJRT_Memory_DebugString_Args* a) {
  a->debug_string = of(a->memory)->debug_text.data();
  a->debug_string_size = of(a->memory)->debug_text.size();
  return nullptr;
}

PJRT_Error* Memory_ToString(PJRT_Memory_ToString_Args* a) {
  a->to_string = of(a->memory)->text.data();
  a->to_string_size = of(a->memory)->text.size();
  return nullptr;
}

PJRT_Error* Memory_AddressableByDevices(PJRT_Memory_AddressableByDevices_Args* a) {
  a->devices = &of(a->memory)->device;
  a->num_devices = 1;
  return nullptr;
}

// -- topologies

PJRT_Error* TopologyDescription_Create(PJRT_TopologyDescription_Create_Args* a) {
  PJRT_Error* error = nullptr;
  a->topology = topology_from(a->create_options, a->num_options, &error).release();
  return error;
}

PJRT_Error* TopologyDescription_Destroy(PJRT_TopologyDescription_Destroy_Args* a) {
  delete a->topology;
  return nullptr;
}

PJRT_Error* TopologyDescription_PlatformName(PJRT_TopologyDescription_PlatformName_Args* a) {
  a->platform_name = kPlatform.data();
  a->platform_name_size = kPlatform.size();
  return nullptr;
}

PJRT_Error* TopologyDescription_PlatformVersion(PJRT_TopologyDescription_PlatformVersion_Args* a) {
  a->platform_version = version_text.data();
  a->platform_version_size = version_text.size();
  return nullptr;
}

PJRT_Error* TopologyDescription_GetDeviceDescriptions(
    PJRT_TopologyDescription_GetDeviceDescriptions_Args* a) {
  a->descriptions = a->topology->listed.data();
  a->num_descriptions = a->topology->listed.size();
  return nullptr;
}

PJRT_Error* TopologyDescription_Attributes(PJRT_TopologyDescription_Attributes_Args* a) {
  a->attributes = nullptr;
  a->num_attributes = 0;
  return nullptr;
}

PJRT_Error* TopologyDescription_Serialize(PJRT_TopologyDescription_Serialize_Args* a) {
  auto* text = new std::string(topology_text(*a->topology));
  a->serialized_bytes = text->data();
  a->serialized_bytes_size = text->size();
  a->serialized_topology = reinterpret_cast<PJRT_SerializedTopology*>(text);
  a->serialized_topology_deleter = [](PJRT_SerializedTopology* held) {
    delete reinterpret_cast<std::string*>(held);
  };
  return nullptr;
}

PJRT_Error* TopologyDescription_Deserialize(PJRT_TopologyDescription_Deserialize_Args* a) {
  PJRT_Error* error = nullptr;
  std::string text(a->serialized_topology, a->serialized_topology_size);
  a->topology = topology_of(text, &error).release();
  return error;
}

PJRT_Error* TopologyDescription_Fingerprint(PJRT_TopologyDescription_Fingerprint_Args* a) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (char c : topology_text(*a->topology)) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  a->fingerprint = hash;
  return nullptr;
}

PJRT_Error* TopologyDescription_GetMemorySpaceKindIds(
    PJRT_TopologyDescription_GetMemorySpaceKindIds_Args* a) {
  static const int ids[kMemoryKinds] = {0, 1, 2};
  a->memory_space_kind_ids = ids;
  a->num_memory_space_kind_ids = kMemoryKinds;
  return nullptr;
}

}  // namespace hl::pjrt
