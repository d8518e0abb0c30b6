// What the runtime keeps behind a context.
#ifndef HLOOM_RUNTIME_CONTEXT_H
#define HLOOM_RUNTIME_CONTEXT_H

#include <atomic>

#include "call_site.h"
#include "hl.h"
#include "host_transfers.h"
#include "pool.h"

namespace hloom {

// What the host gives to the handlers of one execution, by the number of its type.
struct UserData {
  int64_t type_id;
  void* data;
};

struct Steps;
class Communicator;
struct Context;

// Contexts of the threads that do a part of the same execution, by number; the last is nobody's.
inline constexpr int kMostLanes = 64;
struct Lanes {
  std::atomic<uint64_t> used;  // a bit for each that somebody works in
  std::atomic<Context*> of[kMostLanes];
};

struct UserDataList {
  int64_t count;
  const UserData* entries;
};

struct Context : hl_context {
  hloom::Slot* slot;                // where its regions are published, while a program runs
  uint32_t slot_generation;         // of the pool when the slot was acquired
  std::atomic<uint32_t> in_region;  // a region is under way: further ones run where they are met
  std::atomic<uint32_t> running;    // a program is under way
  std::atomic<uint32_t> claimed;    // somebody writes, or has written, the error
  hl_rng* rng;
  hl_queue* infeed;
  hl_queue* outfeed;
  int64_t feed_timeout_ns;
  const hl_host_function* host_functions;
  int64_t host_function_count;
  hl_call_site* call_sites;  // the custom calls of the program
  int64_t call_site_count;
  int64_t run_id;                      // of the execution, where there are custom calls
  const UserDataList* user_data;       // null: none
  const hl_host_transfers* transfers;  // null: the host neither takes nor gives data by channel
  Steps* steps;                        // null: nobody watches
  Communicator* communicator;          // with the other devices of the run; null: it runs alone
  std::atomic<uint32_t> beside;        // parts of the execution are under way in other threads
  Context* parent;                     // of whose execution this is a part; null: none
  std::atomic<Lanes*> lanes;           // null until the first is needed
  char message[2048];
};

inline Context* of(hl_context* context) { return static_cast<Context*>(context); }

inline bool is_cancelled(const hl_context* context) {
  return __atomic_load_n(&context->cancel, __ATOMIC_RELAXED) != 0;
}

// Asks all that a context's execution does to stop.
void cancel_tree(Context* context);
// The context of one more thread of an execution, as new, and its number; null: there are too many,
// or out of memory. The number is used until it is given back: an execution that has parts side by
// side may meet others within one of them.
Context* begin_lane(Context* context, int* number);
void end_lane(Context* context, int number);
// Lets a context have the error of another, in place of its own.
void replace_error(Context* context, int32_t status, const Context* from);

}  // namespace hloom

#endif
