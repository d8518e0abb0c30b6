// How the plugin reaches whoever compiles: a table of functions that answer through a reply. They are
// Python's today; a process without them can do everything but compile.
#ifndef HLOOM_RUNTIME_PJRT_COMPILER_H
#define HLOOM_RUNTIME_PJRT_COMPILER_H

#include "../loaded_program.h"

#ifdef __cplusplus
extern "C" {
#endif

// A program that is ready to run, and the section LAUNCH of its saved form: where it runs, what
// callers hand in and get. Both are held and copied as long as the native side needs them.
typedef struct {
  int64_t handle;  // what Python calls it; 0: it has no name
  hl_program* program;
  const void* launch_spec;
  int64_t launch_spec_size;
  int64_t expected_ns;  // how long a run takes on one thread, by a guess; -1: who knows
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
// Where clients of several processes find one another, if their caller brings no store of keys and
// values. Texts go into `text`, which has room for `most` bytes: what a key has, which `get` waits for
// and whose length it returns; and after -1 what went wrong.
typedef struct {
  int64_t (*put)(const char* key, const char* value, char* text, int64_t most);
  int64_t (*get)(const char* key, int64_t wait_ms, char* text, int64_t most);
} hl_pjrt_key_values;
// Null: there is none any more. The table must stay.
void hl_pjrt_set_key_values(const hl_pjrt_key_values* store);
// Waits until all devices have nothing left to do.
void hl_pjrt_drain(void);
// How many there are of: buffers, storage, events (the one that is always done, too), loaded executables,
// executables, programs, errors; the first `most` of these numbers. How many numbers there are.
int64_t hl_pjrt_live_objects(int64_t* counts, int64_t most);

// How functions of the table answer.
void hl_pjrt_reply_program(hl_pjrt_reply* reply, const hl_pjrt_program* program);
void hl_pjrt_reply_bytes(hl_pjrt_reply* reply, const char* bytes, int64_t size);
void hl_pjrt_reply_number(hl_pjrt_reply* reply, const char* name, double value);
void hl_pjrt_reply_error(hl_pjrt_reply* reply, int64_t code, const char* message);

#ifdef __cplusplus
}
#endif
#endif
