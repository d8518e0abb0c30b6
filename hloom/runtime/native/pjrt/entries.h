// Every function of the table that returns an error, by its name without PJRT_. Those that are not
// defined anywhere else answer UNIMPLEMENTED (table.cc).
#ifndef HLOOM_RUNTIME_PJRT_ENTRIES_H
#define HLOOM_RUNTIME_PJRT_ENTRIES_H

#include "objects.h"

namespace hloom::pjrt {

#define HL_DECLARE(name) PJRT_Error* name(PJRT_##name##_Args* arguments);
PJRT_TABLE(HL_DECLARE)
#undef HL_DECLARE

// Defines a function of the table that cannot fail by what it fills in.
#define HL_ANSWERS(name, ...)               \
  PJRT_Error* name(PJRT_##name##_Args* a) { \
    __VA_ARGS__;                            \
    return nullptr;                         \
  }

// Where a text or a list stands, and how long it is; it outlives the answer.
template <typename List, typename First>
void tell(List& list, First* first, size_t* count) {
  *first = list.data();
  *count = list.size();
}

void Error_Destroy(PJRT_Error_Destroy_Args* arguments);
void Error_Message(PJRT_Error_Message_Args* arguments);

// The extensions that the table points to, one after another.
PJRT_Extension_Base* extensions();

}  // namespace hloom::pjrt

#endif
