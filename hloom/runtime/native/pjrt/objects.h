// What stands behind the handles of the PJRT ABI.
//
// A PJRT_Buffer is a name that JAX holds; a Storage is an array's memory, counted: buffers, runs that
// have yet to read it and views that others took each hold it once. So deleting or donating a buffer
// never takes memory from under anybody, and memory that one donated buffer alone holds may be
// written in place.
#ifndef HLOOM_RUNTIME_PJRT_OBJECTS_H
#define HLOOM_RUNTIME_PJRT_OBJECTS_H

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "../loaded_program.h"
#include "abi.h"
#include "handle.h"
#include "live.h"

namespace hloom::pjrt {

// -- errors

struct Failure : PJRT_Error, Live<Failure> {
  int code;
  std::string message;
};

PJRT_Error* failure(int code, const std::string& message);
PJRT_Error* failuref(int code, const char* format, ...) __attribute__((format(printf, 2, 3)));

// -- events

using Waiter = std::function<void(int code, const std::string& message)>;

}  // namespace hloom::pjrt

// Something that will be done, or fail, once. Counted: it goes with its last holder.
struct PJRT_Event : hloom::pjrt::Live<PJRT_Event> {
  enum State { kPending, kDone, kFailed };
  std::atomic<int32_t> references{1};
  std::atomic<int32_t> state{kPending};
  int code = 0;
  std::string message;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<hloom::pjrt::Waiter> waiters;
};

namespace hloom::pjrt {

PJRT_Event* done_event();  // one for all that is done already: neither counted nor freed
Ref<PJRT_Event> failed_event(int code, const std::string& message);
PJRT_Event* retained(PJRT_Event* event);
void release(PJRT_Event* event);
// Tells everybody who waits; code 0 is success. Only the first call counts.
void finish(PJRT_Event* event, int code = 0, const std::string& message = {});
void wait(PJRT_Event* event);
// Calls it when the event is finished, at once if it is, else in the thread that finishes it.
void when_finished(PJRT_Event* event, Waiter waiter);
PJRT_Error* error_of(PJRT_Event* event);  // of a finished event; null: it succeeded

inline bool is_finished(const PJRT_Event* event) {
  return event->state.load(std::memory_order_acquire) != PJRT_Event::kPending;
}

// -- storage

// Whose the memory of a storage is; kAlias: another storage's, which is held.
enum class Owner : uint8_t { kNobody, kArena, kHost, kForeign, kAlias };

// How the elements of an array lie in memory. Interned, and never freed: equal ones are one object.
struct Layout {
  std::vector<int64_t> minor_to_major;
  std::string text;    // {1,0:E(4)}: what follows the order is a name that changes nothing here
  const Layout* bare;  // the order alone
  bool is_row_major;
};

const Layout* row_major(int64_t rank);
// Null: the text is no layout of that many dimensions.
const Layout* layout_of(const std::string& text, int64_t rank);
// The layout that the ABI states, null being row-major; an error for one that leaves gaps.
PJRT_Error* read_layout(const PJRT_Buffer_MemoryLayout* given, const int64_t* dims, int64_t rank,
                        int64_t item, const Layout** found);
std::vector<int64_t> strides_of(const Layout* layout, const int64_t* dims, int64_t item);

// The bytes of an array. `ready` says when they may be read.
struct Storage : Live<Storage> {
  Storage() = default;
  explicit Storage(int32_t holders) : references(holders) {}

  std::atomic<int32_t> references{1};
  Owner owner = Owner::kNobody;
  Ref<PJRT_Event> ready{done_event()};
  void* data = nullptr;
  void* base = nullptr;  // the block to free, of the arena
  int64_t size = 0;
  Ref<PJRT_Event> host_done;                // kHost: finished when the host may change its memory
  void (*deleter)(void*, void*) = nullptr;  // kForeign
  void* deleter_argument = nullptr;
  Ref<Storage> other;  // kAlias

  bool is_ready() const {
    return ready->state.load(std::memory_order_acquire) == PJRT_Event::kDone;
  }
};

Ref<Storage> new_storage(int64_t size_bytes);  // with memory of the arena; null: there is none
Storage* retained(Storage* storage);
void release(Storage* storage);

struct Queue;
struct Program;

}  // namespace hloom::pjrt

namespace hloom {
class Processes;
}

struct PJRT_DeviceDescription {
  int id = 0;
  int process = 0;
  int local = 0;  // its number among those of its process
  std::string kind = "cpu";
  std::string text, debug_text;
};

// `triple`, `cpu` and `features` are empty where they are this machine's.
struct PJRT_TopologyDescription {
  std::vector<std::unique_ptr<PJRT_DeviceDescription>> devices;
  std::vector<PJRT_DeviceDescription*> listed;
  std::string triple, cpu, features;
  std::vector<int64_t> counts;  // of devices, process by process
};

namespace hloom::pjrt {

// A memory space of one device: all of them are the host's memory.
struct MemorySpace : PJRT_Memory {
  struct UserData {
    void* value;
    void (*deleter)(void*);
  };
  int id, kind_id;
  const char* kind;
  std::string text, debug_text;
  PJRT_Device* device;
  std::mutex mutex;
  std::unordered_map<const void*, UserData> user_data;
};

inline MemorySpace* of(PJRT_Memory* memory) { return static_cast<MemorySpace*>(memory); }

constexpr int kMemoryKinds = 3;
extern const char* const kKinds[kMemoryKinds];
int kind_id_of(const std::string& kind);  // -1: there is no such kind

}  // namespace hloom::pjrt

struct PJRT_Device {
  PJRT_Client* client = nullptr;
  PJRT_DeviceDescription* description = nullptr;
  std::unique_ptr<hloom::pjrt::MemorySpace> memories[hloom::pjrt::kMemoryKinds];
  PJRT_Memory* listed[hloom::pjrt::kMemoryKinds] = {};
  // Programs run one after another; those that call the host do so where they are called.
  hloom::pjrt::Queue* programs = nullptr;
};

struct PJRT_Client {
  std::unique_ptr<PJRT_TopologyDescription> topology;
  std::vector<std::unique_ptr<PJRT_Device>> devices;
  std::vector<PJRT_Device*> listed, addressable;  // all, and those of this process
  std::vector<PJRT_Memory*> memories;             // of the addressable ones
  bool asynchronous = true;
  int64_t most_in_flight = 32;
  int process = 0;
  hloom::Processes* processes = nullptr;  // null: there is one
};

struct PJRT_Buffer : hloom::pjrt::Live<PJRT_Buffer> {
  static constexpr int64_t kSmallRank = 6;
  hloom::Spin lock;                                 // guards the next three
  hloom::pjrt::Ref<hloom::pjrt::Storage> storage;   // null: deleted or donated
  hloom::pjrt::Ref<hloom::pjrt::Storage> external;  // held for views that others took
  int64_t external_count = 0;
  PJRT_Device* device;
  PJRT_Memory* memory;
  PJRT_Buffer_Type type;
  int64_t rank;
  const int64_t* dims;
  const hloom::pjrt::Layout* layout;
  int64_t small[kSmallRank];

  PJRT_Buffer(PJRT_Memory* memory, PJRT_Buffer_Type type, const int64_t* dims,
              const hloom::pjrt::Layout* layout, hloom::pjrt::Ref<hloom::pjrt::Storage> storage);
  ~PJRT_Buffer();
};

// What a caller gives to one execution: user data of FFI handlers, by the number of its type.
struct PJRT_ExecuteContext {
  std::vector<PJRT_FFI_UserData> data;
};

namespace hloom::pjrt {

// The storage, held once more; null if the buffer has none any more.
Ref<Storage> held_storage(PJRT_Buffer* buffer);
// The storage, which the buffer then has no more.
Ref<Storage> taken_storage(PJRT_Buffer* buffer);

// -- types

// Bytes of an element in the host's memory (types narrower than a byte take one); 0: no such type.
int64_t element_bytes(PJRT_Buffer_Type type);
// Bits of an element of which buffers hold several in a byte; 0 for all other types.
int packed_bits(PJRT_Buffer_Type type);
// Bytes of an array in a buffer, and in the host's memory, where nothing is packed.
int64_t bytes_of(PJRT_Buffer_Type type, const int64_t* dims, int64_t rank);
int64_t host_bytes_of(PJRT_Buffer_Type type, const int64_t* dims, int64_t rank);
// Whether there is an element type of this number.
bool is_type(int64_t number);
// Whether no dimension is below 0, and the bytes can be counted.
bool has_size(PJRT_Buffer_Type type, const int64_t* dims, int64_t rank);
// Whether elements stand where this layout, without gaps, has them.
bool lie_as(const Layout* layout, const int64_t* strides, const int64_t* dims, int64_t item);
// Copies between memories with strides in bytes.
void copy_strided(char* to, const int64_t* to_strides, const char* from,
                  const int64_t* from_strides, const int64_t* dims, int64_t rank, int64_t item);
std::vector<int64_t> row_major_strides(const int64_t* dims, int64_t rank, int64_t item);
// The storage in another layout, when it is there. Null: there is no memory.
Ref<Storage> relaid(const Ref<Storage>& from, PJRT_Buffer_Type type, const int64_t* dims,
                    const Layout* before, const Layout* after);
constexpr int64_t kMostRank = 64;

// Views of memory and arguments of programs are aligned to this at least.
constexpr uintptr_t kArgumentAlignment = 16;
// Arrays of the host are used where they stand from this alignment on, as by the built-in backend:
// numpy's own are seldom aligned so, and who refills such an array counts on its having been copied.
constexpr uintptr_t kSharedAlignment = 64;

}  // namespace hloom::pjrt

#endif
