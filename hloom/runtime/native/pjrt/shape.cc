// Types, sizes and strides.
#include <string.h>

#include "objects.h"

namespace hl::pjrt {

int64_t element_bytes(PJRT_Buffer_Type type) {
  switch (type) {
    case PJRT_Buffer_Type_INVALID: return 0;
    case PJRT_Buffer_Type_TOKEN: return 0;
    case PJRT_Buffer_Type_S16:
    case PJRT_Buffer_Type_U16:
    case PJRT_Buffer_Type_F16:
    case PJRT_Buffer_Type_BF16: return 2;
    case PJRT_Buffer_Type_S32:
    case PJRT_Buffer_Type_U32:
    case PJRT_Buffer_Type_F32: return 4;
    case PJRT_Buffer_Type_S64:
    case PJRT_Buffer_Type_U64:
    case PJRT_Buffer_Type_F64:
    case PJRT_Buffer_Type_C64: return 8;
    case PJRT_Buffer_Type_C128: return 16;
    default: return 1;  // types of a byte, and narrower ones, which are not packed
  }
}

int64_t bytes_of(PJRT_Buffer_Type type, const int64_t* dims, int64_t rank) {
  int64_t bytes = element_bytes(type);
  for (int64_t d = 0; d < rank; ++d) bytes *= dims[d];
  return bytes;
}

std::vector<int64_t> row_major_strides(const int64_t* dims, int64_t rank, int64_t item) {
  std::vector<int64_t> strides(rank);
  for (int64_t d = rank - 1; d >= 0; --d) {
    strides[d] = item;
    item *= dims[d];
  }
  return strides;
}

bool is_row_major(const int64_t* strides, const int64_t* dims, int64_t rank, int64_t item) {
  for (int64_t d = 0; d < rank; ++d)
    if (dims[d] == 0) return true;
  for (int64_t d = rank - 1; d >= 0; --d) {
    if (dims[d] != 1 && strides[d] != item) return false;
    item *= dims[d];
  }
  return true;
}

std::vector<int64_t> strides_of(const PJRT_Buffer_MemoryLayout* layout, const int64_t* dims,
                                int64_t rank, int64_t item) {
  std::vector<int64_t> strides = row_major_strides(dims, rank, item);
  if (layout == nullptr) return strides;
  if (layout->type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    for (int64_t d = 0; d < rank && d < static_cast<int64_t>(layout->strides.num_byte_strides); ++d)
      strides[d] = layout->strides.byte_strides[d];
    return strides;
  }
  for (int64_t k = 0; k < static_cast<int64_t>(layout->tiled.minor_to_major_size); ++k) {
    int64_t d = layout->tiled.minor_to_major[k];
    strides[d] = item;
    item *= dims[d];
  }
  return strides;
}

namespace {

template <typename Item>
void copy_row(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t n) {
  for (int64_t k = 0; k < n; ++k)
    memcpy(to + k * to_stride, from + k * from_stride, sizeof(Item));
}

struct Wide {
  char bytes[16];
};

}  // namespace

void copy_strided(char* to, const int64_t* to_strides, const char* from,
                  const int64_t* from_strides, const int64_t* dims, int64_t rank, int64_t item) {
  if (rank == 0) {
    memcpy(to, from, item);
    return;
  }
  if (is_row_major(to_strides, dims, rank, item) && is_row_major(from_strides, dims, rank, item)) {
    for (int64_t d = 0; d < rank; ++d) item *= dims[d];
    memcpy(to, from, item);
    return;
  }
  if (rank > 1) {
    for (int64_t k = 0; k < dims[0]; ++k)
      copy_strided(to + k * to_strides[0], to_strides + 1, from + k * from_strides[0],
                   from_strides + 1, dims + 1, rank - 1, item);
    return;
  }
  switch (item) {
    case 1: return copy_row<int8_t>(to, to_strides[0], from, from_strides[0], dims[0]);
    case 2: return copy_row<int16_t>(to, to_strides[0], from, from_strides[0], dims[0]);
    case 4: return copy_row<int32_t>(to, to_strides[0], from, from_strides[0], dims[0]);
    case 8: return copy_row<int64_t>(to, to_strides[0], from, from_strides[0], dims[0]);
    default: return copy_row<Wide>(to, to_strides[0], from, from_strides[0], dims[0]);
  }
}

const int64_t* descending(int64_t rank) {
  static const auto numbers = [] {
    struct {
      int64_t at[kMostRank];
    } made{};
    for (int64_t k = 0; k < kMostRank; ++k) made.at[k] = kMostRank - 1 - k;
    return made;
  }();
  return numbers.at + kMostRank - rank;
}

}  // namespace hl::pjrt
