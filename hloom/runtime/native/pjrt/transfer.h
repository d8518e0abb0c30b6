// What functions that make and fill buffers share.
#ifndef HLOOM_RUNTIME_PJRT_TRANSFER_H
#define HLOOM_RUNTIME_PJRT_TRANSFER_H

#include "objects.h"

namespace hloom::pjrt {

PJRT_Error* no_memory(int64_t bytes);
PJRT_Error* deleted();
// The buffer's storage, held for a copy of `count` of its bytes from `offset`; what is wrong otherwise.
PJRT_Error* hold_bytes(PJRT_Buffer* buffer, int64_t offset, int64_t count, Ref<Storage>* held);
// The layout of an array that is to be made; an error for types, ranks and layouts that none has.
PJRT_Error* checked(PJRT_Buffer_Type type, const int64_t* dims, size_t rank,
                    const PJRT_Buffer_MemoryLayout* given, const Layout** layout);
// Copies bytes when the source is there; `copied` is finished then.
void copy_when_ready(Ref<Storage> from, char* to, int64_t offset, int64_t size,
                     const Ref<PJRT_Event>& copied);

// An array as if nothing in it were packed, for those who address elements: of most types the memory
// itself, of elements below a byte a copy, to be put back by those who write to it.
class Unpacked {
 public:
  Unpacked(PJRT_Buffer_Type type, const int64_t* dims, int64_t rank, char* data,
           bool is_read = true);
  void put_back();

  char* data;

 private:
  char* packed_;
  int bits_;
  std::vector<char> apart_;
};

}  // namespace hloom::pjrt

#endif
