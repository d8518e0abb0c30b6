// The state of rng-get-and-update-state: 128 bits that only ever grow by what the program adds.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#include "host.h"
#include "context.h"

struct hl_rng {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  unsigned __int128 state = 0x7012395;  // where XLA begins, too
};

// A state at its beginning: one per executable. Null: out of memory.
HL_API hl_rng* hl_rng_new() { return new (std::nothrow) hl_rng; }
HL_API void hl_rng_free(hl_rng* rng) { delete rng; }

// Writes the low and then the high 64 bits of the state to `out`, then adds delta to it.
HL_API void hl_rng_next(hl_rng* rng, uint64_t* out, uint64_t delta_low, uint64_t delta_high) {
  pthread_mutex_lock(&rng->mutex);
  unsigned __int128 state = rng->state;
  rng->state = state + ((static_cast<unsigned __int128>(delta_high) << 64) | delta_low);
  pthread_mutex_unlock(&rng->mutex);
  uint64_t words[2] = {static_cast<uint64_t>(state), static_cast<uint64_t>(state >> 64)};
  memcpy(out, words, sizeof(words));
}

// The same for the program's state; an error if its context has none.
HL_API int32_t hl_rng_get_and_update_state(hl_context* context, void* out16, uint64_t delta_low,
                                           uint64_t delta_high) {
  hl_rng* rng = hloom::of(context)->rng;
  if (rng == nullptr)
    return hl_set_error(context, HL_FAILED_PRECONDITION,
                        "rng-get-and-update-state: the context has no random state");
  uint64_t words[2];
  hl_rng_next(rng, words, delta_low, delta_high);
  memcpy(out16, words, sizeof(words));
  return HL_OK;
}
