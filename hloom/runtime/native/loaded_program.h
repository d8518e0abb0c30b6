// A program ready to run: its code linked, its constants in place, its custom calls bound. Whoever
// compiles it or loads it from a file, this is what runs (execution.h).
#ifndef HLOOM_RUNTIME_LOADED_PROGRAM_H
#define HLOOM_RUNTIME_LOADED_PROGRAM_H

#include "call_site.h"
#include "host.h"
#include "host_transfers.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hl_program hl_program;

// What a program is made of. Everything is copied but constants that stay where they are.
typedef struct {
  const void* record;  // the section PROGRAM of a saved program (saved_form.h)
  int64_t record_size;
  const void* objects;  // the section OBJECTS
  int64_t objects_size;
  const void* const* constants;  // where each allocation's stands, null: it has none
  int64_t copies_constants;      // they are gone afterwards
  hl_pool* pool;
  const char* const* block_names;  // by allocation, for messages under HLOOM_GUARD; null: none
  int64_t is_foreign;  // for a machine that this one cannot stand for: a run is an error
} hl_program_parts;

// What went wrong in this thread, last.
typedef struct {
  int64_t status;
  char rule[32];
  char text[4064];
  const void* context;  // where handlers of the host have failed: the run's; it may be gone
} hl_problem;

// An array that is handed in.
typedef struct {
  void* data;
  void* block;  // what `data` stands in, if the program may write it, and keep it if it is the
                // arena's; null: it may be read. Null afterwards if a result has it.
} hl_argument;

// An array that comes out: a block of the arena, and where the array stands in it. For `data` that is
// given, the array is put there, and no block comes out.
typedef struct {
  void* data;
  void* block;
} hl_result;

// Null: `hl_last_problem` says why not. Counted: who makes one or retains one releases it.
hl_program* hl_program_new(const hl_program_parts* parts);
hl_program* hl_program_retain(hl_program* program);
void hl_program_release(hl_program* program);
// Runs it; returns a status. `context` is for those who want to cancel the run, else null; `entry`
// another main function, null being the program's. Blocks that are arguments are the caller's still
// unless a result has them; what was written to them is there.
int32_t hl_program_run(hl_program* program, hl_context* context, hl_main_function entry,
                       hl_argument* arguments, hl_result* results);
void hl_last_problem(hl_problem* problem);

// A context for one run, and back. Null: no memory.
hl_context* hl_program_context(hl_program* program);
void hl_program_put_back(hl_program* program, hl_context* context);

// The queues between the host and a device of a program; null: no memory.
hl_queue* hl_program_infeed(hl_program* program, int64_t device);
hl_queue* hl_program_outfeed(hl_program* program, int64_t device);
// What a program's sends to the host and receives from it call; before it runs.
void hl_program_set_transfers(hl_program* program, const hl_host_transfers* transfers);
void* hl_program_symbol(const hl_program* program, const char* name);
int64_t hl_program_code_bytes(const hl_program* program);
// Where the constant of an allocation stands; null: it is none.
const void* hl_program_constant(const hl_program* program, int64_t allocation);
// The slot in which a custom call's handlers keep what they know; null: there is no such call.
void** hl_program_call_state(hl_program* program, int64_t index);

#ifdef __cplusplus
}

#include <atomic>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "saved.h"

namespace hloom {

// Guards a few words for a few instructions.
class Spin {
 public:
  bool try_lock() { return !flag_.test_and_set(std::memory_order_acquire); }
  void lock() {
    while (!try_lock()) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_;
};

struct Problem {
  int32_t status = HL_OK;
  std::string rule, text;
  const void* context = nullptr;
};

// Where a result's memory comes from.
enum class Source : uint8_t {
  kNone,     // a token
  kBlock,    // a fresh block, which the result keeps
  kWritten,  // an argument that the program has written
  kCopy,     // memory that is somebody else's: an argument only read, a constant, another result's
};

}  // namespace hloom

struct hl_program {
  struct FreshAllocation {
    int64_t allocation, size_bytes;
    bool is_temporary;
  };
  struct Argument {
    int64_t allocation;  // -1: nothing reads it
    int64_t size_bytes;
    bool is_written;
  };
  struct Result {
    int64_t allocation, offset, size_bytes;
    hloom::Source source;
    int64_t argument;  // kWritten: its number
  };

  std::atomic<int32_t> references{1};
  std::vector<int64_t> record;  // the section; call sites point into it
  std::string name;
  hl_main_function entry = nullptr;
  hl_pool* pool = nullptr;
  hl_loaded* code = nullptr;
  hl_rng* random = nullptr;
  hl_queue *infeed = nullptr, *outfeed = nullptr;  // of the first device
  hl_host_transfers transfers{};                   // of all devices
  std::vector<hl_queue*> infeeds, outfeeds;        // of the others, made when they are asked for
  std::vector<void*> fixed;                        // by allocation: constants, else null
  std::vector<void*> own_constants;                // those of them that are copies
  std::vector<FreshAllocation> blocks;             // what a run needs fresh
  std::vector<Argument> arguments;                 // one for each leaf of the parameters
  std::vector<Result> results;                     // one for each leaf of the result
  std::vector<hl_call_site> sites;
  std::deque<std::vector<hl_call_buffer>> call_buffers;
  std::deque<std::vector<hl_attribute>> attributes;
  std::deque<std::string> site_names;
  std::vector<std::string> block_names;
  int64_t temporary_bytes = 0, alias_bytes = 0;
  bool calls_host = false;  // a run may call Python, or block

  hloom::Spin lock;
  std::vector<hl_context*> contexts;  // that no run uses now
  std::vector<hl_rng*> device_randoms;

  ~hl_program();
};

namespace hloom {

// The same as hl_program_new, with the problem told.
hl_program* load_program(const hl_program_parts& parts, Problem* problem);
// Of a saved program that is open. Constants stay in the file unless they are to be copied.
hl_program* load_program(const saved::File& file, hl_pool* pool, bool copies_constants,
                         Problem* problem);
// A context for the run of one of several devices, which has a random state of its own. Null: no
// memory.
hl_context* context_of_device(hl_program* program, int64_t device);
// What `hl_last_problem` tells in this thread.
void remember(const Problem& problem);

}  // namespace hloom
#endif

#endif
