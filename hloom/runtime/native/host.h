// What hosts call: Python through ctypes, the plugin in pjrt/. What compiled code calls is hl.h's.
#ifndef HLOOM_RUNTIME_HOST_H
#define HLOOM_RUNTIME_HOST_H

#include "hl.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hl_loaded;
typedef struct hl_loaded hl_loaded;

int32_t hl_abi_version(void);

hl_pool* hl_pool_new(int32_t threads);
void hl_pool_free(hl_pool* pool);

// A null arena is that of the process.
void* hl_arena_alloc(hl_arena* arena, int64_t size_bytes);
void* hl_arena_alloc_aligned(hl_arena* arena, int64_t size_bytes);
int32_t hl_arena_free(hl_arena* arena, void* memory);
void hl_arena_statistics(hl_arena* arena, int64_t* out);
int64_t hl_arena_largest(hl_arena* arena);
void hl_arena_clear_peak(hl_arena* arena);

hl_rng* hl_rng_new(void);
void hl_rng_free(hl_rng* rng);
hl_queue* hl_queue_new(int64_t capacity);
void hl_queue_free(hl_queue* queue);

hl_loaded* hl_load_objects(const void* const* objects, const int64_t* sizes,
                           const char* const* names, int64_t count, int64_t machine,
                           const char* const* external_names, void* const* external_addresses,
                           const int8_t* external_is_data, int64_t external_count, char* message,
                           int64_t message_size);
void* hl_symbol(const hl_loaded* loaded, const char* name);
int64_t hl_loaded_size(const hl_loaded* loaded);
void hl_unload(hl_loaded* loaded);

hl_context* hl_context_new(hl_pool* pool, hl_arena* arena);
void hl_context_free(hl_context* context);
const char* hl_context_message(hl_context* context);
void hl_context_set_rng(hl_context* context, hl_rng* rng);
void hl_context_set_feeds(hl_context* context, hl_queue* infeed, hl_queue* outfeed,
                          int64_t timeout_ns);
void* hl_context_user_data(hl_context* context, int64_t type_id);
int32_t hl_execute(hl_context* context, hl_main_function fn, void** buffers);
void hl_cancel(hl_context* context);

int32_t hl_processor(uint32_t* words, int32_t count);

#ifdef __cplusplus
}
#endif
#endif
