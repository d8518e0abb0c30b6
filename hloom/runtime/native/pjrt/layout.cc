// Layouts: orders of the dimensions of arrays in memory.
#include <stdlib.h>

#include <algorithm>

#include "objects.h"

namespace hloom::pjrt {
namespace {

std::mutex mutex;
std::vector<const Layout*> known;  // few: programs have a handful of orders

const Layout* interned(const std::vector<int64_t>& order, const std::string& names = {}) {
  std::string text = "{";
  for (int64_t d : order) text += (text.size() > 1 ? "," : "") + std::to_string(d);
  text += names + "}";
  const Layout* bare = names.empty() ? nullptr : interned(order);
  std::lock_guard<std::mutex> guard(mutex);
  for (const Layout* layout : known)
    if (layout->text == text) return layout;
  auto* made = new Layout{order, text, bare, std::is_sorted(order.rbegin(), order.rend())};
  if (bare == nullptr) made->bare = made;
  known.push_back(made);
  return made;
}

bool is_permutation(std::vector<int64_t> order, int64_t rank) {
  std::sort(order.begin(), order.end());
  bool fits = static_cast<int64_t>(order.size()) == rank;
  for (int64_t d = 0; d < rank && fits; ++d) fits = order[d] == d;
  return fits;
}

// The order that strides in bytes stand for; false where elements do not fill their memory.
bool order_of(const int64_t* strides, const int64_t* dims, int64_t rank, int64_t item,
              std::vector<int64_t>* order) {
  order->clear();
  for (int64_t d = rank - 1; d >= 0; --d) order->push_back(d);
  std::stable_sort(order->begin(), order->end(),
                   [&](int64_t a, int64_t b) { return strides[a] < strides[b]; });
  for (int64_t d : *order) {
    if (dims[d] != 1 && strides[d] != item) return false;
    item *= dims[d];
  }
  return true;
}

PJRT_Error* malformed(const char* what) {
  return failuref(PJRT_Error_Code_INVALID_ARGUMENT, "a buffer's layout %s [layout]", what);
}

}  // namespace

const Layout* row_major(int64_t rank) {
  static const auto all = [] {
    std::vector<const Layout*> made;
    std::vector<int64_t> order;
    for (int64_t k = 0; k <= kMostRank; ++k) {
      made.push_back(interned(order));
      order.insert(order.begin(), k);
    }
    return made;
  }();
  if (rank <= kMostRank) return all[rank];
  std::vector<int64_t> order(rank);
  for (int64_t k = 0; k < rank; ++k) order[k] = rank - 1 - k;
  return interned(order);
}

const Layout* layout_of(const std::string& text, int64_t rank) {
  std::vector<int64_t> order;
  size_t at = text.find('{'), end = text.find_last_of('}');
  if (at != 0 || end == std::string::npos) return nullptr;
  size_t names = std::min(text.find(':'), end);
  for (at = 1; at < names; at = std::min(text.find(',', at), names) + 1)
    order.push_back(strtoll(text.c_str() + at, nullptr, 10));
  return is_permutation(order, rank) ? interned(order, text.substr(names, end - names)) : nullptr;
}

PJRT_Error* read_layout(const PJRT_Buffer_MemoryLayout* given, const int64_t* dims, int64_t rank,
                        int64_t item, const Layout** found) {
  *found = row_major(rank);
  if (given == nullptr) return nullptr;
  std::vector<int64_t> order;
  if (given->type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    if (static_cast<int64_t>(given->strides.num_byte_strides) != rank)
      return malformed("has not one stride for each dimension");
    if (std::find(dims, dims + rank, 0) != dims + rank) return nullptr;
    if (!order_of(given->strides.byte_strides, dims, rank, item, &order))
      return malformed("has strides that leave gaps, overlap or go backwards");
  } else {
    if (given->tiled.num_tiles > 0) return malformed("has tiles, which hloom's arrays have not");
    order.assign(given->tiled.minor_to_major,
                 given->tiled.minor_to_major + given->tiled.minor_to_major_size);
    if (!is_permutation(order, rank)) return malformed("is no permutation of the dimensions");
  }
  *found = interned(order);
  return nullptr;
}

std::vector<int64_t> strides_of(const Layout* layout, const int64_t* dims, int64_t item) {
  std::vector<int64_t> strides(layout->minor_to_major.size());
  for (int64_t d : layout->minor_to_major) {
    strides[d] = item;
    item *= dims[d];
  }
  return strides;
}

}  // namespace hloom::pjrt
