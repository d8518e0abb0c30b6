// Outfeeds of programs that have several: an item says first which of them it is from.
#include "hl.h"

HL_API int32_t hl_outfeed(hl_context* context, void** buffers, const int64_t* sizes, int64_t count);

// As hl_outfeed, with the eight bytes of `number` as a buffer before the others.
HL_API int32_t hl_outfeed_numbered(hl_context* context, int64_t number, void** buffers,
                                   const int64_t* sizes, int64_t count) {
  auto** places = static_cast<void**>(hl_alloc(context, (count + 1) * sizeof(void*)));
  auto* lengths = static_cast<int64_t*>(hl_alloc(context, (count + 1) * sizeof(int64_t)));
  if (places == nullptr || lengths == nullptr) return context->status;
  places[0] = &number, lengths[0] = sizeof(number);
  for (int64_t k = 0; k < count; ++k) places[k + 1] = buffers[k], lengths[k + 1] = sizes[k];
  int32_t status = hl_outfeed(context, places, lengths, count + 1);
  hl_free(context, places);
  hl_free(context, lengths);
  return status;
}
