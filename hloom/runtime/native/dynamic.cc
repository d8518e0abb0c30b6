// Arrays of run-time size at the boundary of a program: padded when they come, packed when they go.
//
// Outside, an array holds its elements densely by its run-time sizes, and behind the bytes of its
// bound one s32 size for each dimension. Inside, it is an array of the bound and scalar sizes. Both
// have one layout: `order` names the dimensions, the slowest first, and all below is in that order.
#include <string.h>

#include "hl.h"

namespace {

struct Copy {
  int64_t rank;
  int64_t bounds[64];
  int64_t sizes[64];
  int64_t element_bytes;
  const char* dense_in;
  char* padded_out;
  const char* padded_in;
  char* dense_out;
};

// Rows (runs of the last dimension) begin..end of the dense form, one way or the other.
void copy_rows(void* args, int64_t begin, int64_t end) {
  const Copy& c = *static_cast<const Copy*>(args);
  int64_t last = c.rank - 1;
  int64_t row_bytes = c.sizes[last] * c.element_bytes;
  for (int64_t row = begin; row < end; ++row) {
    int64_t rest = row, place = 0, stride = c.bounds[last];
    for (int64_t d = last - 1; d >= 0; --d) {
      place += rest % c.sizes[d] * stride;
      rest /= c.sizes[d];
      stride *= c.bounds[d];
    }
    int64_t dense = row * row_bytes, padded = place * c.element_bytes;
    if (c.dense_in != nullptr) memcpy(c.padded_out + padded, c.dense_in + dense, row_bytes);
    else memcpy(c.dense_out + dense, c.padded_in + padded, row_bytes);
  }
}

int32_t copy(hl_context* context, const char* what, Copy& c, const int64_t* order) {
  if (c.rank > 64)
    return hl_set_error(context, HL_UNIMPLEMENTED, "%s: rank %lld", what, (long long)c.rank);
  int64_t rows = 1;
  for (int64_t d = 0; d < c.rank; ++d) {
    if (c.sizes[d] < 0 || c.sizes[d] > c.bounds[d])
      return hl_set_error(context, HL_INVALID_ARGUMENT,
                          "%s: size %lld of dimension %lld is not within its bound %lld", what,
                          (long long)c.sizes[d], (long long)order[d], (long long)c.bounds[d]);
    if (d + 1 < c.rank) rows *= c.sizes[d];
  }
  if (rows == 0 || c.sizes[c.rank - 1] == 0) return HL_OK;
  int64_t row_bytes = c.sizes[c.rank - 1] * c.element_bytes;
  hl_parallel_for(context, copy_rows, &c, rows, 1 + 65536 / row_bytes);
  return HL_OK;
}

}  // namespace

// `in` is an array of run-time size whose sizes stand `size_offset` bytes behind its start. Writes
// it padded to its bounds with zeros, as a program may enlarge its size again, and one s32 for each of `sizes` not null.
// `bounds` and `sizes` are by dimension.
HL_API int32_t hl_pad_ordered(hl_context* context, int64_t rank, const int64_t* bounds,
                              const int64_t* order, int64_t element_bytes, int64_t size_offset,
                              const char* in, char* out, int32_t* const* sizes) {
  Copy c{};
  c.rank = rank, c.element_bytes = element_bytes, c.dense_in = in, c.padded_out = out;
  int64_t bound_bytes = element_bytes;
  bool is_whole = true;
  for (int64_t k = 0; k < rank && k < 64; ++k) {
    int64_t d = order[k];
    int32_t size;
    memcpy(&size, in + size_offset + 4 * d, 4);
    c.bounds[k] = bounds[d], c.sizes[k] = size;
    if (sizes[d] != nullptr) *sizes[d] = size;
    is_whole = is_whole && size == bounds[d];
    bound_bytes *= bounds[d];
  }
  if (!is_whole) memset(out, 0, bound_bytes);
  return copy(context, "PadToStatic", c, order);
}

// The other way: from an array of the bounds, and one s32 for each dimension.
HL_API int32_t hl_slice_ordered(hl_context* context, int64_t rank, const int64_t* bounds,
                                const int64_t* order, int64_t element_bytes, int64_t size_offset,
                                const char* in, const int32_t* const* sizes, char* out) {
  Copy c{};
  c.rank = rank, c.element_bytes = element_bytes, c.padded_in = in, c.dense_out = out;
  for (int64_t k = 0; k < rank && k < 64; ++k)
    c.bounds[k] = bounds[order[k]], c.sizes[k] = *sizes[order[k]];
  int32_t status = copy(context, "SliceToDynamic", c, order);
  for (int64_t d = 0; d < rank && d < 64; ++d) memcpy(out + size_offset + 4 * d, sizes[d], 4);
  return status;
}
