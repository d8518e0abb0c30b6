// Devices and their memories.
#include <string.h>

#include "client.h"
#include "workers.h"

namespace hloom::pjrt {

const char* const kKinds[kMemoryKinds] = {"device", "pinned_host", "unpinned_host"};

int kind_id_of(const std::string& kind) {
  for (int k = 0; k < kMemoryKinds; ++k)
    if (kind == kKinds[k]) return k;
  return -1;
}

namespace {

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
  made->text = (kind == 0 ? "CPU_" : "") + upper + "_" + std::to_string(made->id);
  // As the built-in backend's are shown.
  static const char* const kShown[] = {"CpuDeviceMemory", "PinnedHostMemory",
                                       "UnpinnedHostMemorySpace"};
  static_assert(sizeof(kShown) / sizeof(*kShown) == kMemoryKinds);
  made->debug_text = std::string(kShown[kind]) + "(id=" + std::to_string(made->id) +
                     ", process_index=" + std::to_string(device->description->process) +
                     ", client=cpu)";
  return made;
}

}  // namespace

std::unique_ptr<PJRT_Device> new_device(PJRT_Client* client, PJRT_DeviceDescription* description) {
  auto device = std::make_unique<PJRT_Device>();
  device->client = client;
  device->description = description;
  device->programs = new_queue(client->most_in_flight);
  remember_queue(device->programs);
  for (int k = 0; k < kMemoryKinds; ++k) {
    device->memories[k] = new_memory(device.get(), k);
    device->listed[k] = device->memories[k].get();
  }
  return device;
}

// -- devices

HL_ANSWERS(DeviceDescription_Id, a->id = a->device_description->id)
HL_ANSWERS(DeviceDescription_ProcessIndex, a->process_index = a->device_description->process)
HL_ANSWERS(DeviceDescription_Attributes, a->attributes = nullptr; a->num_attributes = 0)
HL_ANSWERS(DeviceDescription_Kind,
           tell(a->device_description->kind, &a->device_kind, &a->device_kind_size))
HL_ANSWERS(DeviceDescription_DebugString,
           tell(a->device_description->debug_text, &a->debug_string, &a->debug_string_size))
HL_ANSWERS(DeviceDescription_ToString,
           tell(a->device_description->text, &a->to_string, &a->to_string_size))
HL_ANSWERS(Device_GetDescription, a->device_description = a->device->description)
HL_ANSWERS(Device_IsAddressable,
           a->is_addressable = a->device->description->process == a->device->client->process)
HL_ANSWERS(Device_LocalHardwareId, a->local_hardware_id = a->device->description->local)
HL_ANSWERS(Device_AddressableMemories, a->memories = a->device->listed;
           a->num_memories = kMemoryKinds)
HL_ANSWERS(Device_DefaultMemory, a->memory = a->device->listed[0])

PJRT_Error* Device_GetAttributes(PJRT_Device_GetAttributes_Args* a) {
  a->attributes = nullptr;
  a->num_attributes = 0;
  a->device_attributes = nullptr;
  a->attributes_deleter = [](PJRT_Device_Attributes*) {};
  return nullptr;
}

HL_ANSWERS(Device_ClearMemoryStats, hl_arena_clear_peak(nullptr))

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
  a->largest_alloc_size = hl_arena_largest(nullptr);
  // Nothing is set aside, and what is free is not in pieces: it is the system's.
  a->bytes_reserved = a->peak_bytes_reserved = 0;
  a->bytes_reservable_limit = numbers[6];
  a->largest_free_block_bytes = numbers[6] > numbers[0] ? numbers[6] - numbers[0] : 0;
  a->largest_alloc_size_is_set = a->bytes_reserved_is_set = a->peak_bytes_reserved_is_set = true;
  a->bytes_reservable_limit_is_set = a->largest_free_block_bytes_is_set = true;
  a->peak_pool_bytes_is_set = false;
  return nullptr;
}

// -- memories

HL_ANSWERS(Memory_Id, a->id = of(a->memory)->id)
HL_ANSWERS(Memory_Kind, a->kind = of(a->memory)->kind; a->kind_size = strlen(a->kind))
HL_ANSWERS(Memory_Kind_Id, a->kind_id = of(a->memory)->kind_id)
HL_ANSWERS(Memory_DebugString,
           tell(of(a->memory)->debug_text, &a->debug_string, &a->debug_string_size))
HL_ANSWERS(Memory_ToString, tell(of(a->memory)->text, &a->to_string, &a->to_string_size))
HL_ANSWERS(Memory_AddressableByDevices, a->devices = &of(a->memory)->device; a->num_devices = 1)

}  // namespace hloom::pjrt
