// Several processes under JAX: each puts where it is into the key-value store of JAX's coordinator,
// and reads where the others are; from then on they talk through sockets.
#include "joining.h"

#include <stdlib.h>

#include <atomic>
#include <map>

#include "../processes_sockets.h"
#include "compiler.h"
#include "program.h"

namespace hloom::pjrt {
namespace {

constexpr int kPatienceMs = 300'000;  // until all have started and brought up their clients
constexpr int kMostText = 4096;       // of a value: the addresses of a process

PJRT_Error* told_by_caller(PJRT_Error_Code code, const char* message, size_t size) {
  return failure(code, std::string(message, size));
}

std::atomic<const hl_pjrt_key_values*> own_store{nullptr};

// The key-value store that all processes of the run share: what Python brings, else the caller's
// (jaxlib leaves its callbacks as they are in memory where it has none).
class KeyValues {
 public:
  explicit KeyValues(const PJRT_Client_Create_Args& a) : a_(a), own_(own_store) {}
  bool is_there() const {
    return own_ != nullptr || (a_.kv_get_callback != nullptr && a_.kv_put_callback != nullptr);
  }

  PJRT_Error* put(const std::string& key, const std::string& value) const {
    if (own_ != nullptr) {
      char text[kMostText];
      if (own_->put(key.c_str(), value.c_str(), text, kMostText) == 0) return nullptr;
      return failure(PJRT_Error_Code_UNAVAILABLE, text);
    }
    PJRT_CallbackError told = told_by_caller;
    PJRT_KeyValuePutCallback_Args a{};
    a.struct_size = sizeof(a);
    a.key = key.data();
    a.key_size = key.size();
    a.value = value.data();
    a.value_size = value.size();
    a.callback_error = &told;
    a.user_arg = a_.kv_put_user_arg;
    return a_.kv_put_callback(&a);
  }

  // Waits until somebody has put it.
  PJRT_Error* get(const std::string& key, std::string* value) const {
    if (own_ != nullptr) {
      char text[kMostText];
      int64_t size = own_->get(key.c_str(), kPatienceMs, text, kMostText);
      if (size < 0) return failure(PJRT_Error_Code_UNAVAILABLE, text);
      value->assign(text, static_cast<size_t>(size));
      return nullptr;
    }
    PJRT_CallbackError told = told_by_caller;
    PJRT_KeyValueGetCallback_Args a{};
    a.struct_size = sizeof(a);
    a.key = key.data();
    a.key_size = key.size();
    a.timeout_in_ms = kPatienceMs;
    a.callback_error = &told;
    a.user_arg = a_.kv_get_user_arg;
    if (PJRT_Error* error = a_.kv_get_callback(&a)) return error;
    value->assign(a.value, a.value_size);
    if (a.value_deleter_callback != nullptr) a.value_deleter_callback(a.value);
    return nullptr;
  }

 private:
  const PJRT_Client_Create_Args& a_;
  const hl_pjrt_key_values* own_;
};

// The processes that this one is connected with; a second client meets them again.
std::mutex joined_mutex;
Processes* joined = nullptr;
int64_t clients = 0;

}  // namespace

PJRT_Error* join_processes(const PJRT_Client_Create_Args& arguments, int rank, int size,
                           int64_t device_count, Processes** processes,
                           std::vector<int64_t>* counts) {
  KeyValues store(arguments);
  if (!store.is_there())
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                    "a client of %d processes needs a key-value store to find the others: "
                    "jax.distributed.initialize() brings one [processes]",
                    size);
  if (rank < 0 || rank >= size)
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT, "there is no process %d of %d [processes]",
                    rank, size);
  std::lock_guard<std::mutex> guard(joined_mutex);
  bool is_known = joined != nullptr && joined->rank() == rank && joined->size() == size &&
                  !joined->is_any_gone();
  std::unique_ptr<SocketDoor> door(is_known ? nullptr : new SocketDoor);
  if (door != nullptr && door->place().empty())
    return failure(PJRT_Error_Code_UNAVAILABLE,
                   "this process cannot listen on any port for others [processes]");
  std::string prefix = "hloom/" + std::to_string(clients++) + "/";
  std::string own = std::to_string(device_count) + " " + (is_known ? "" : door->place());
  if (PJRT_Error* error = store.put(prefix + std::to_string(rank), own)) return error;
  std::vector<std::string> places;
  for (int k = 0; k < size; ++k) {
    std::string text;
    if (PJRT_Error* error = store.get(prefix + std::to_string(k), &text)) return error;
    char* end = nullptr;
    counts->push_back(strtoll(text.c_str(), &end, 10));
    if (counts->back() < 1 || counts->back() > 4096)
      return failuref(PJRT_Error_Code_INTERNAL,
                      "process %d says nothing that hloom says [processes]", k);
    places.emplace_back(end + 1);
  }
  if (!is_known) {
    std::string why;
    joined = door->joined(rank, places, int64_t{kPatienceMs} * 1'000'000, &why);
    if (joined == nullptr) return failure(PJRT_Error_Code_UNAVAILABLE, why);
  }
  *processes = joined;
  return nullptr;
}

std::unique_ptr<hloom::Span> next_run(const PJRT_LoadedExecutable& executable) {
  static std::mutex mutex;
  static std::map<uint64_t, int64_t> runs;
  auto hash = [](uint64_t sum, uint64_t value) { return (sum ^ value) * 0x100000001b3; };  // FNV-1a
  uint64_t devices = 0xcbf29ce484222325, meetings = devices;
  for (const PJRT_DeviceDescription* each : executable.assigned)
    devices = hash(devices, static_cast<uint64_t>(each->id));
  const std::string& text = executable.program->fingerprint;
  for (size_t k = text.find(':'); k < text.size(); ++k)
    meetings = hash(meetings, static_cast<uint8_t>(text[k]));
  std::vector<int> process_of;
  for (const PJRT_DeviceDescription* each : executable.assigned)
    process_of.push_back(each->process);
  auto span = std::make_unique<hloom::Span>(executable.client->processes, devices,
                                            static_cast<int64_t>(meetings), std::move(process_of));
  std::lock_guard<std::mutex> guard(mutex);
  span->set_run(runs[devices]++);
  return span;
}

}  // namespace hloom::pjrt

HL_API void hl_pjrt_set_key_values(const hl_pjrt_key_values* store) {
  hloom::pjrt::own_store = store;
}
