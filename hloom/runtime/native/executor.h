// Runs of a program that need not wait for each other, on several threads of the pool.
//
// A run is a function of the program: thunks with no wait between them. A run begins once those
// that it waits for have ended: each has a counter, which whoever ends a run lowers for its
// successors. Threads that have nothing to run help with the regions (region.cc) of those that do.
#ifndef HLOOM_RUNTIME_EXECUTOR_H
#define HLOOM_RUNTIME_EXECUTOR_H

#include "hl.h"

#ifdef __cplusplus
extern "C" {
#endif

// The numbers of one set of runs, by position: `plan` begins with HL_PLAN_HEAD of them, then come
// HL_PLAN_RUN for each run, the successors of all, and the call sites of all. A run waits only for
// runs before it, so that one after another they are a valid order too.
enum { HL_PLAN_RUNS = 0, HL_PLAN_STREAMS = 1, HL_PLAN_HEAD = 2 };
enum {
  HL_RUN_WAITS = 0,       // how many runs it waits for
  HL_RUN_SUCCESSORS = 1,  // where the numbers of those stand in the plan that wait for it
  HL_RUN_SUCCESSOR_COUNT = 2,
  HL_RUN_SITES = 3,  // where the numbers of the custom calls that it makes stand in the plan
  HL_RUN_SITE_COUNT = 4,
  HL_PLAN_RUN = 5
};

// What is kept between executions, 0 at first: how many there were, and the time that one takes with
// its runs side by side, and one after another.
enum { HL_STATE_COUNT = 0, HL_STATE_BESIDE_NS = 1, HL_STATE_AFTER_NS = 2, HL_STATE = 3 };

// Executes the runs, each with the same buffers and a context of its own thread. Where that was seen
// to be slower, or two runs make calls of Python, all run here one after another.
// Returns the status of the first that failed; others are cancelled, those not begun never begin.
int32_t hl_run_concurrently(hl_context* context, void** buffers, const hl_main_function* runs,
                            const int64_t* plan, int64_t* state);

// For tests: from now on any ready run may be next, as drawn from the seed, after a wait of at most
// `most_delay_ns`; nothing measured counts. Seed 0 ends it.
void hl_executor_draw(int64_t seed, int64_t most_delay_ns);

// How many runs have begun beside another one, in the whole process: for tests and the curious.
int64_t hl_executor_overlaps();

#ifdef __cplusplus
}
#endif
#endif
