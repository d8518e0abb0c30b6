// What compiled code may call in the embeddable runtime: kinds of routines, linked where asked for.
#ifndef HLOOM_RUNTIME_RT_ROUTINES_H
#define HLOOM_RUNTIME_RT_ROUTINES_H

#include <string>

namespace hloom::rt {

struct Routine {
  const char* name;
  void* function;
};

// Adds a kind; `routines` ends with a null name and lives as long as the process. Once is enough.
void use(const Routine* routines);
// What a program of these unknown names lacks, for people; empty: nothing that is known.
std::string lacking(const std::string& problem);

}  // namespace hloom::rt
#endif
