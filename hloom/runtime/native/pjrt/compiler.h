// How the plugin reaches whoever compiles: a table of functions that answer through a reply. They are
// Python's today; a process without them can do everything but compile.
#ifndef HLOOM_RUNTIME_PJRT_COMPILER_H
#define HLOOM_RUNTIME_PJRT_COMPILER_H

#include "../call_site.h"
#include "../hl.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HL_PJRT_DONATED = 1, HL_PJRT_WRITTEN = 2 };

typedef struct {
  int64_t allocation;  // where the program looks for it; -1: nowhere
  int64_t flags;  // DONATED: the caller's buffer is gone afterwards; WRITTEN: the program writes it
  int64_t type;   // a PJRT_Buffer_Type
  int64_t rank;
  const int64_t* dims;
  int64_t memory_kind;
  const char* sharding;  // a serialized OpSharding, for programs of several devices
  int64_t sharding_size;
  const int64_t* whole;    // sizes of the whole array where `dims` are those of a shard, else null
  const int64_t* offsets;  // then: where the shard of each device begins, device by device
  const char* layout;      // {0,1}; null: row-major
} hl_pjrt_argument;

typedef struct {
  int64_t allocation;  // -1: a token
  int64_t offset;
  int64_t type;
  int64_t rank;
  const int64_t* dims;
  int64_t memory_kind;
  const char* sharding;
  int64_t sharding_size;
  const int64_t* whole;
  const int64_t* offsets;
  const char* layout;
} hl_pjrt_result;

typedef struct {
  int64_t allocation;
  int64_t size_bytes;
  int64_t is_temporary;
} hl_pjrt_block;

// A program ready to run. Everything is copied but the entry, the pool, the random state and the call
// sites, which stay until `release(handle)`.
typedef struct hl_pjrt_program {
  int64_t handle;
  const char* name;
  const char* fingerprint;
  hl_main_function entry;
  hl_pool* pool;
  hl_rng* random;
  hl_queue* infeed;
  hl_queue* outfeed;
  hl_call_site* sites;
  int64_t site_count;
  int64_t allocation_count;
  void* const* fixed;  // addresses of constants by allocation, else null
  int64_t block_count;
  const hl_pjrt_block* blocks;  // what a run needs fresh
  int64_t argument_count;
  const hl_pjrt_argument* arguments;
  int64_t result_count;
  const hl_pjrt_result* results;
  // A program of several partitions is run once, on whole arrays.
  int64_t replica_count, partition_count;
  int64_t device_count;
  const int64_t* devices;  // replica by replica; none: wherever the caller says
  int64_t expected_ns;     // how long a run takes on one thread, by a guess; -1: who knows
  int64_t calls_host;      // a run may call Python, or block
  int64_t is_portable;
  int64_t code_bytes, temporary_bytes, alias_bytes;
  const char* const* block_names;  // by allocation, for messages under HLOOM_GUARD; null: none
  int64_t region_count;
  const struct hl_pjrt_program*
      regions;  // code of one device, which this program calls (manual.cc)
} hl_pjrt_program;

typedef struct hl_pjrt_reply hl_pjrt_reply;

enum {
  HL_PJRT_ASK_PROGRAM = 0,
  HL_PJRT_ASK_COST = 1,
  HL_PJRT_ASK_SAVED = 2,
  HL_PJRT_ASK_OPTIONS = 3,
  HL_PJRT_ASK_STEPS = 4
};

typedef struct {
  void (*compile)(const char* code, int64_t code_size, const char* format, int64_t format_size,
                  const char* options, int64_t options_size, const char* topology,
                  int64_t topology_size, hl_pjrt_reply* reply);
  void (*load)(const char* saved, int64_t saved_size, const char* options, int64_t options_size,
               hl_pjrt_reply* reply);
  void (*ask)(int64_t handle, int64_t what, hl_pjrt_reply* reply);
  // Asks for a call of `released` soon, from a thread that may run Python; any thread may ask.
  int (*call_soon)(int (*function)(void*), void* argument);
  int (*released)(void* nothing);
} hl_pjrt_compiler;

// Handles of programs that nothing needs any more, up to `most` of them; how many there were.
int64_t hl_pjrt_take_released(int64_t* handles, int64_t most);

// Null: nobody compiles any more. The table must stay.
void hl_pjrt_set_compiler(const hl_pjrt_compiler* compiler);
// What clients say of themselves, and the newest StableHLO they read. Set before the first client.
void hl_pjrt_set_versions(const char* platform, int64_t major, int64_t minor, int64_t patch);
// Waits until all devices have nothing left to do.
void hl_pjrt_drain(void);

// How functions of the table answer.
void hl_pjrt_reply_program(hl_pjrt_reply* reply, const hl_pjrt_program* program);
void hl_pjrt_reply_bytes(hl_pjrt_reply* reply, const char* bytes, int64_t size);
void hl_pjrt_reply_number(hl_pjrt_reply* reply, const char* name, double value);
void hl_pjrt_reply_error(hl_pjrt_reply* reply, int64_t code, const char* message);

#ifdef __cplusplus
}
#endif
#endif
