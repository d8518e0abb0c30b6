// How the host takes and gives data while a program runs, by channel.
#ifndef HLOOM_RUNTIME_HOST_TRANSFERS_H
#define HLOOM_RUNTIME_HOST_TRANSFERS_H

#include "hl.h"

#ifdef __cplusplus
extern "C" {
#endif

// Both return a status, with the error set in the context if it is not 0. `shape` is the text of an
// HLO shape. A send has its data until it returns; a receive has written all of it by then. Null: the
// host has no such handlers.
typedef struct hl_host_transfers {
  void* state;
  int32_t (*send)(void* state, hl_context* context, int64_t channel, const char* shape,
                  const void* data, int64_t size_bytes);
  int32_t (*receive)(void* state, hl_context* context, int64_t channel, const char* shape,
                     void* data, int64_t size_bytes);
} hl_host_transfers;

#ifdef __cplusplus
}
#endif
#endif
