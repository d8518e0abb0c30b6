// Types, sizes and strides.
#include <stdlib.h>
#include <string.h>

#include <algorithm>

#include "objects.h"

namespace hloom::pjrt {

int64_t element_bytes(PJRT_Buffer_Type type) {
  switch (type) {
    case PJRT_Buffer_Type_INVALID:
      return 0;
    case PJRT_Buffer_Type_TOKEN:
      return 0;
    case PJRT_Buffer_Type_S16:
    case PJRT_Buffer_Type_U16:
    case PJRT_Buffer_Type_F16:
    case PJRT_Buffer_Type_BF16:
      return 2;
    case PJRT_Buffer_Type_S32:
    case PJRT_Buffer_Type_U32:
    case PJRT_Buffer_Type_F32:
      return 4;
    case PJRT_Buffer_Type_S64:
    case PJRT_Buffer_Type_U64:
    case PJRT_Buffer_Type_F64:
    case PJRT_Buffer_Type_C64:
      return 8;
    case PJRT_Buffer_Type_C128:
      return 16;
    default:
      return 1;  // types of a byte, and narrower ones
  }
}

int packed_bits(PJRT_Buffer_Type type) {
  switch (type) {
    case PJRT_Buffer_Type_S4:
    case PJRT_Buffer_Type_U4:
    case PJRT_Buffer_Type_F4E2M1FN:
      return 4;
    case PJRT_Buffer_Type_S2:
    case PJRT_Buffer_Type_U2:
      return 2;
    default:
      return 0;  // types of one bit, too, which StableHLO cannot tell from booleans
  }
}

int64_t host_bytes_of(PJRT_Buffer_Type type, const int64_t* dims, int64_t rank) {
  int64_t bytes = element_bytes(type);
  for (int64_t d = 0; d < rank; ++d) bytes *= dims[d];
  return bytes;
}

int64_t bytes_of(PJRT_Buffer_Type type, const int64_t* dims, int64_t rank) {
  int64_t bytes = host_bytes_of(type, dims, rank);
  int bits = packed_bits(type);
  return bits == 0 ? bytes : bytes / (8 / bits) + (bytes % (8 / bits) != 0);
}

bool is_type(int64_t number) {
  return number > PJRT_Buffer_Type_INVALID && number <= PJRT_Buffer_Type_U1;
}

bool has_size(PJRT_Buffer_Type type, const int64_t* dims, int64_t rank) {
  int64_t bytes = element_bytes(type);
  for (int64_t d = 0; d < rank; ++d) {
    if (dims[d] < 0) return false;
    // Strides are made of all dimensions, so one of 0 does not make the others small.
    if (dims[d] > 0 && __builtin_mul_overflow(bytes, dims[d], &bytes)) return false;
  }
  return true;
}

std::vector<int64_t> row_major_strides(const int64_t* dims, int64_t rank, int64_t item) {
  return strides_of(row_major(rank), dims, item);
}

bool lie_as(const Layout* layout, const int64_t* strides, const int64_t* dims, int64_t item) {
  bool alike = true;
  for (int64_t d : layout->minor_to_major) {
    if (dims[d] == 0) return true;
    alike = alike && (dims[d] == 1 || strides[d] == item);
    item *= dims[d];
  }
  return alike;
}

namespace {

template <typename Item>
void copy_row(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t n) {
  for (int64_t k = 0; k < n; ++k) memcpy(to + k * to_stride, from + k * from_stride, sizeof(Item));
}

struct Wide {
  char bytes[16];
};

// A dimension of two memories.
struct Walk {
  int64_t size, to, from;
};

// Along the last dimension, for every place of those before it.
void copy_rows(char* to, const char* from, const Walk* walk, const Walk* last, int64_t item) {
  if (walk != last) {
    for (int64_t k = 0; k < walk->size; ++k)
      copy_rows(to + k * walk->to, from + k * walk->from, walk + 1, last, item);
    return;
  }
  if (walk->to == item && walk->from == item) {
    memcpy(to, from, walk->size * item);
    return;
  }
  switch (item) {
    case 1:
      return copy_row<int8_t>(to, walk->to, from, walk->from, walk->size);
    case 2:
      return copy_row<int16_t>(to, walk->to, from, walk->from, walk->size);
    case 4:
      return copy_row<int32_t>(to, walk->to, from, walk->from, walk->size);
    case 8:
      return copy_row<int64_t>(to, walk->to, from, walk->from, walk->size);
    default:
      return copy_row<Wide>(to, walk->to, from, walk->from, walk->size);
  }
}

}  // namespace

void copy_strided(char* to, const int64_t* to_strides, const char* from,
                  const int64_t* from_strides, const int64_t* dims, int64_t rank, int64_t item) {
  std::vector<Walk> walks;
  for (int64_t d = 0; d < rank; ++d) {
    if (dims[d] == 0) return;
    if (dims[d] > 1) walks.push_back({dims[d], to_strides[d], from_strides[d]});
  }
  // Outermost what lies farthest apart where it is written; what follows on becomes one.
  std::stable_sort(walks.begin(), walks.end(),
                   [](const Walk& a, const Walk& b) { return std::abs(a.to) > std::abs(b.to); });
  std::vector<Walk> merged;
  for (const Walk& walk : walks) {
    Walk* outer = merged.empty() ? nullptr : &merged.back();
    if (outer != nullptr && outer->to == walk.to * walk.size &&
        outer->from == walk.from * walk.size)
      *outer = {outer->size * walk.size, walk.to, walk.from};
    else merged.push_back(walk);
  }
  if (merged.empty()) merged.push_back({1, item, item});
  copy_rows(to, from, merged.data(), &merged.back(), item);
}

}  // namespace hloom::pjrt
