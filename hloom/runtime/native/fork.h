// Mutexes that no fork leaves locked for ever.
#ifndef HLOOM_RUNTIME_FORK_H
#define HLOOM_RUNTIME_FORK_H

#include <pthread.h>

namespace hloom {

// From now on a fork waits until the mutex is free, so that it is free in the child, where a thread
// that held it would not exist. For mutexes that live as long as the process and are held for a
// moment only, with no other of them taken meanwhile.
void free_in_forks(pthread_mutex_t* mutex);

}  // namespace hloom

#endif
