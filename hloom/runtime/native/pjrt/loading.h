// Programs out of saved executables, and a compiler for processes that have brought none.
#ifndef HLOOM_RUNTIME_PJRT_LOADING_H
#define HLOOM_RUNTIME_PJRT_LOADING_H

#include "program.h"

namespace hloom::pjrt {

// The program in the bytes of a saved program, ready to run without Python.
PJRT_Error* program_in(const char* saved, size_t size, Ref<Program>* program);

// Sees to it that there is a compiler: embeds Python where the process has none (embed.cc).
PJRT_Error* have_compiler();
// Whether there was a compiler that has ended: then nobody starts another.
bool compiler_has_ended();

}  // namespace hloom::pjrt

#endif
