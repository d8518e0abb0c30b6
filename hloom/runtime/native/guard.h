// Memory between protected pages; see guard.cc.
#ifndef HLOOM_RUNTIME_GUARD_H
#define HLOOM_RUNTIME_GUARD_H

#include "linker.h"

namespace hloom {

// Whether HLOOM_GUARD asks for guards around every block of the arenas. Read once, at load.
extern const bool guarding;

// Code that a message may name by its kernels, from `remember` to `forget`.
void remember_code(const hl_loaded* loaded);
void forget_code(const hl_loaded* loaded);

}  // namespace hloom

// Memory of its own that ends `margin_bytes` before a protected page, as exactly as `alignment` lets
// it (a power of two up to 4096; 0: what divides the size, at most 64), and begins behind one. All of
// it and what stands around it holds 0xff. Null: no memory. The first one installs the handler that
// says which buffer a stray access missed.
HL_API void* hl_guard_alloc(int64_t size_bytes, int64_t alignment, int64_t margin_bytes);
// 1: freed. 0: it is no such block. An access to it stays a fault for a while.
HL_API int32_t hl_guard_free(void* block);
// Bytes of the block, -1 if there is no such one.
HL_API int64_t hl_guard_size(const void* block);
// Such a block for a kernel's scratch memory: the same for a thread's calls with this number and size,
// and all 0xff in each. The process ends if there is no memory.
HL_API void* hl_guard_scratch(int64_t number, int64_t size_bytes);
// How far somebody wrote outside: bytes before its start (negative), behind its end, or 0.
HL_API int64_t hl_guard_stray(const void* block);
// What messages call the block; the text is copied.
HL_API void hl_guard_name(void* block, const char* name);
// Where messages go: a file descriptor; standard error if not said.
HL_API void hl_guard_report_to(int32_t descriptor);
// From here on, or no longer, a write to the block is a fault.
HL_API void hl_guard_read_only(void* block, int32_t is_read_only);
// Ends the process with a message if something was written around one of these blocks; others, and
// nulls, are passed over.
HL_API void hl_guard_check(void* const* blocks, int64_t count);

#endif
