// The context of one execution. (Regions run on one thread until the pool is in.)
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "hl.h"

namespace {
struct Context : hl_context {
  char message[1024];
};
}  // namespace

// The version of the ABI; changed when a signature or an offset changes.
HL_API int32_t hl_abi_version() { return 1; }

HL_API hl_context* hl_context_new(hl_pool* pool, hl_arena* arena) {
  Context* context = static_cast<Context*>(calloc(1, sizeof(Context)));
  if (context == nullptr) return nullptr;
  context->threads = 1;
  context->pool = pool;
  context->arena = arena;
  return context;
}
HL_API void hl_context_free(hl_context* context) { free(context); }
HL_API const char* hl_context_message(hl_context* context) {
  return static_cast<Context*>(context)->message;
}
HL_API void hl_parallel_for(hl_context*, hl_range_function fn, void* args, int64_t n,
                            int64_t grain) {
  if (grain < 1) grain = 1;
  for (int64_t begin = 0; begin < n; begin += grain)
    fn(args, begin, n - begin < grain ? n : begin + grain);
}
HL_API void hl_parallel_for_ns(hl_context* context, hl_range_function fn, void* args, int64_t n,
                               int64_t grain, int64_t) {
  hl_parallel_for(context, fn, args, n, grain);
}
HL_API void* hl_alloc(hl_context* context, int64_t size_bytes) {
  void* memory = nullptr;
  if (size_bytes < 0 || posix_memalign(&memory, 64, size_bytes) != 0) {
    hl_set_error(context, HL_RESOURCE_EXHAUSTED, "out of memory: %lld bytes",
                 static_cast<long long>(size_bytes));
    return nullptr;
  }
  return memory;
}
HL_API void hl_free(hl_context*, void* memory) { free(memory); }
HL_API int32_t hl_set_error(hl_context* context, int32_t status, const char* format, ...) {
  if (context->status == HL_OK) {
    context->status = status;
    va_list list;
    va_start(list, format);
    vsnprintf(static_cast<Context*>(context)->message, 1024, format, list);
    va_end(list);
  }
  return status;
}
