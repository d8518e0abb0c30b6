// A thread that runs jobs one after another; it is started by the first.
#ifndef HLOOM_RUNTIME_PJRT_WORKERS_H
#define HLOOM_RUNTIME_PJRT_WORKERS_H

#include <functional>

#include "../team.h"
#include "objects.h"

namespace hloom::pjrt {

Queue* new_queue(int64_t most);
// Waits first while as many jobs as may be are in the queue, unless one of the queues' threads asks.
void push(Queue* queue, std::function<void()> job);
// Waits until everything that was pushed before has run.
void drain(Queue* queue);
// Whether this is the thread of a queue: it must not wait for what stands behind it.
bool in_queue();
// The calling thread ends Python: others of Python's threads stay in the library from here on.
void end_of_python();
// That was no end: somebody ran the functions of Python's exit by hand.
void python_goes_on();
// Does not return where the end came and the calling thread is one of those.
void stay_at_the_end();

}  // namespace hloom::pjrt

#endif
