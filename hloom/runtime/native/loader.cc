// Loads relocatable objects: what hosts call.
#include <stdio.h>
#include <sys/mman.h>

#include "host.h"
#include "guard.h"
#include "linker.h"

// Loads objects (copied: they may go afterwards) that form one program. `names` are for messages
// and profilers (null: those of their modules; without one object 0, object 1, ...). `machine` is 0
// for this machine, else the ELF number of another one, whose code is linked to be looked at.
// Externals are symbols the objects may use; those with external_is_data (null: none) are never
// reached through a jump. Null: `message` says why, one problem per line.
HL_API hl_loaded* hl_load_objects(const void* const* objects, const int64_t* sizes,
                                  const char* const* names, int64_t count, int64_t machine,
                                  const char* const* external_names,
                                  void* const* external_addresses, const int8_t* external_is_data,
                                  int64_t external_count, char* message, int64_t message_size) {
  hloom::Problems problems;
  std::vector<hloom::Object> parsed(count < 0 ? 0 : count);
  uint16_t wanted = machine == 0 ? hloom::kHostMachine : static_cast<uint16_t>(machine);
  for (int64_t i = 0; i < count; ++i) {
    hloom::Object& object = parsed[i];
    object.data = static_cast<const uint8_t*>(objects[i]);
    object.size = sizes[i] < 0 ? 0 : sizes[i];
    object.name = names != nullptr ? names[i] : "object " + std::to_string(i);
    if (object.parse(&problems) && object.machine != wanted)
      problems.add("%s: for machine %u, not for %u", object.name.c_str(), object.machine, wanted);
    if (names == nullptr && !object.module.empty()) object.name = object.module;
  }
  hl_loaded* loaded = nullptr;
  if (!problems.any()) {
    std::vector<hloom::Given> given;
    given.reserve(external_count < 0 ? 0 : external_count);
    for (int64_t i = 0; i < external_count; ++i)
      given.push_back({external_names[i], reinterpret_cast<uint64_t>(external_addresses[i]),
                       external_is_data != nullptr && external_is_data[i] != 0});
    loaded = hloom::link(&parsed, wanted, given, &problems);
    if (loaded != nullptr && hloom::guarding) hloom::remember_code(loaded);
  }
  if (message != nullptr && message_size > 0)
    snprintf(message, message_size, "%s",
             loaded != nullptr ? ""
             : problems.any()  ? problems.text().c_str()
                               : "out of memory");
  return loaded;
}

// The address of a global symbol, or null.
HL_API void* hl_symbol(const hl_loaded* loaded, const char* name) {
  auto at = loaded->symbols.find(name);
  return at == loaded->symbols.end() ? nullptr : reinterpret_cast<void*>(at->second);
}

// Bytes of memory that the code and data take.
HL_API int64_t hl_loaded_size(const hl_loaded* loaded) { return loaded->size; }

// Nothing of it may be running.
HL_API void hl_unload(hl_loaded* loaded) {
  if (loaded == nullptr) return;
  if (hloom::guarding) hloom::forget_code(loaded);
  munmap(loaded->base, loaded->size);
  delete loaded;
}
