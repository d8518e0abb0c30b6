// Topologies: which devices there are, and of which machine.
#include <stdlib.h>

#include "client.h"

namespace hloom::pjrt {

std::unique_ptr<PJRT_TopologyDescription> new_topology(std::vector<int64_t> counts) {
  auto made = std::make_unique<PJRT_TopologyDescription>();
  for (size_t process = 0; process < counts.size(); ++process) {
    for (int64_t k = 0; k < counts[process]; ++k) {
      auto device = std::make_unique<PJRT_DeviceDescription>();
      device->id = static_cast<int>(made->listed.size());
      device->process = static_cast<int>(process);
      device->local = static_cast<int>(k);
      std::string id = std::to_string(device->id);
      device->text = "CpuDevice(id=" + id + ")";
      device->debug_text = "cpu:" + id;  // as the built-in client says it
      made->listed.push_back(device.get());
      made->devices.push_back(std::move(device));
    }
  }
  made->counts = std::move(counts);
  return made;
}

namespace {

// The saved form: lines of a name and what it is; devices process by process.
std::string topology_text(const PJRT_TopologyDescription& topology) {
  std::string counts;
  for (int64_t count : topology.counts) counts += " " + std::to_string(count);
  return "hloom topology 1\ndevices" + counts + "\ntriple " + topology.triple + "\ncpu " +
         topology.cpu + "\nfeatures " + topology.features + "\n";
}

constexpr int64_t kMostDevices = 4096;

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
  std::vector<int64_t> counts;
  int64_t total = 0;
  bool is_right = lines["hloom"] == "topology 1";
  for (const char* at = lines["devices"].c_str(); is_right && *at != 0;) {
    char* end = nullptr;
    counts.push_back(strtoll(at, &end, 10));
    total += is_right && counts.back() > 0 && counts.back() <= kMostDevices ? counts.back() : 0;
    is_right =
        end != at && counts.back() > 0 && counts.back() <= kMostDevices && total <= kMostDevices;
    at = end;
  }
  if (!is_right || counts.empty()) {
    *error = failure(PJRT_Error_Code_INVALID_ARGUMENT,
                     "these bytes are no topology of hloom [topology]");
    return nullptr;
  }
  auto made = new_topology(std::move(counts));
  made->triple = lines["triple"];
  made->cpu = lines["cpu"];
  made->features = lines["features"];
  return made;
}

}  // namespace

std::unique_ptr<PJRT_TopologyDescription> topology_from(const PJRT_NamedValue* options,
                                                        size_t count, PJRT_Error** error) {
  if ((*error = wrong_option(options, count)) != nullptr) return nullptr;
  if (auto* saved = option(options, count, "topology", PJRT_NamedValue_kString))
    return topology_of(std::string(saved->string_value, saved->value_size), error);
  int64_t device_count = 1;
  if (auto* given = option(options, count, "cpu_device_count", PJRT_NamedValue_kInt64))
    device_count = given->int64_value;
  int64_t process = 0;
  for (const char* name : {"node_id", "process_id"})
    if (auto* given = option(options, count, name, PJRT_NamedValue_kInt64))
      process = given->int64_value;
  if (device_count < 1 || device_count > kMostDevices) {
    *error = failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                      "cpu_device_count is %lld; 1 to 4096 can be [device-count]",
                      static_cast<long long>(device_count));
    return nullptr;
  }
  auto made = new_topology({device_count});
  for (auto* device : made->listed) device->process = static_cast<int>(process);
  const std::pair<const char*, std::string*> of_machine[] = {
      {"triple", &made->triple}, {"cpu", &made->cpu}, {"features", &made->features}};
  for (auto [name, place] : of_machine)
    if (auto* given = option(options, count, name, PJRT_NamedValue_kString))
      place->assign(given->string_value, given->value_size);
  return made;
}

PJRT_Error* TopologyDescription_Create(PJRT_TopologyDescription_Create_Args* a) {
  PJRT_Error* error = nullptr;
  auto made = topology_from(a->create_options, a->num_options, &error);
  if (made == nullptr) return error;
  // Without a client there is nobody to ask: each process has as many devices as any other.
  auto* size = option(a->create_options, a->num_options, "num_nodes", PJRT_NamedValue_kInt64);
  if (size != nullptr && size->int64_value > 1) {
    auto all = new_topology(std::vector<int64_t>(size->int64_value, made->counts[0]));
    all->triple = std::move(made->triple);
    all->cpu = std::move(made->cpu);
    all->features = std::move(made->features);
    made = std::move(all);
  }
  a->topology = made.release();
  return nullptr;
}

PJRT_Error* TopologyDescription_Destroy(PJRT_TopologyDescription_Destroy_Args* a) {
  delete a->topology;
  return nullptr;
}

HL_ANSWERS(TopologyDescription_PlatformName,
           tell(kPlatform, &a->platform_name, &a->platform_name_size))
HL_ANSWERS(TopologyDescription_PlatformVersion,
           tell(platform_version, &a->platform_version, &a->platform_version_size))
HL_ANSWERS(TopologyDescription_GetDeviceDescriptions,
           tell(a->topology->listed, &a->descriptions, &a->num_descriptions))
HL_ANSWERS(TopologyDescription_Attributes, a->attributes = nullptr; a->num_attributes = 0)

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
  std::string text = topology_text(*a->topology);
  if (a->topology->triple.empty() && a->topology->cpu.empty() &&
      a->topology->features.empty()) {  // this processor, then
    uint32_t words[128];
    int32_t count = hl_processor(words, 128);
    text.append(reinterpret_cast<const char*>(words),
                (count < 128 ? count : 128) * sizeof(uint32_t));
  }
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
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

}  // namespace hloom::pjrt
