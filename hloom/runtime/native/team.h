// Threads that each do a part of one thing at the same time; they are kept and used again.
#ifndef HLOOM_RUNTIME_TEAM_H
#define HLOOM_RUNTIME_TEAM_H

#include <functional>

namespace hloom {

// A thread with a stack that LAPACK and Python can run on. False: none is to be had.
bool start_thread(const char* name, void* (*body)(void*), void* argument);
// Calls it with 0 ... count - 1 at the same time, each in a thread of its own, 0 in this one. False:
// there are not so many threads to be had, and nothing was called.
bool run_team(int count, const std::function<void(int)>& body);
// Whether this is one of the threads that teams have made.
bool in_team();

}  // namespace hloom

#endif
