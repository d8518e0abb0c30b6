// The custom calls of one executable: what their frames hold that never changes. See ROUTINES.md.
#pragma once
#include "custom_call.h"

#ifdef __cplusplus
extern "C" {
#endif

// One operand or result. `allocation` is -1 where there are no bytes (a token).
typedef struct {
  int64_t dtype;
  int64_t rank;
  const int64_t* dims;
  int64_t allocation;
  int64_t offset;
} hl_call_buffer;

typedef struct {
  const hl_custom_call* call;
  int64_t operand_count;
  const hl_call_buffer* operands;
  int64_t result_count;
  const hl_call_buffer* results;
  int64_t attribute_count;
  const hl_attribute* attributes;
  void* state;
  const char* name;  // for messages: the instruction and its target
} hl_call_site;

// Runs the instantiate stage of every site, once for each executable. Returns a status.
int32_t hl_call_sites_instantiate(hl_context* context, hl_call_site* sites, int64_t count);
// Runs prepare of all sites, then initialize of all: hl_execute does so before the program.
int32_t hl_call_sites_begin(hl_context* context, void** buffers);
// For programs: the execute stage of a site; `pointers` are its operands', then its results'.
int32_t hl_call_site_run(hl_context* context, int64_t index, void** pointers);
// Which custom calls the programs of this context make; the table must outlive it.
void hl_context_set_call_sites(hl_context* context, hl_call_site* sites, int64_t count);
// Frees what the sites' handlers keep.
void hl_call_sites_end(hl_call_site* sites, int64_t count);

#ifdef __cplusplus
}
#endif
