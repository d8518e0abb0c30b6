// What to say if the process ends inside somebody else's code; see crash_note.cc.
#ifndef HLOOM_RUNTIME_CRASH_NOTE_H
#define HLOOM_RUNTIME_CRASH_NOTE_H

#include "hl.h"

// From now on until `hl_crash_note_done`, of this thread: if a signal or exit() ends the process here,
// `message` goes to standard error and `size_bytes` of `content` to a new file `path`, whose last two
// folders are made. All of it is copied. 0: too many threads have one, or there is no memory.
HL_API int32_t hl_crash_note(const char* message, const char* path, const char* content,
                             int64_t size_bytes);
HL_API void hl_crash_note_done();

#endif
