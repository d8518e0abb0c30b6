// What the members of a group compute and move once all have come: peers' operands are read where
// they stand, results are written where they belong.
//
// The work is cut into shares that any member may do. Folding is done by functions that the compiler
// has written: one takes the operands of all members and writes the results of all.
#include <string.h>

#include <algorithm>

#include "communicator_in_process.h"

namespace hloom {
namespace {

// Shares a member should find, so that one that comes late leaves the others with little to wait for.
constexpr int64_t kSharesPerMember = 4;

using Compiled = void (*)(void* const* arguments, int64_t begin, int64_t end);

char* bytes(void* memory) { return static_cast<char*>(memory); }

bool is_folding(const Exchange& e) {
  return e.operation.kind == Exchanging::kAllReduce || e.operation.kind == Exchanging::kReduce;
}

int64_t size_of(const Exchange& e, int64_t array) {
  return e.operation.arrays[array].outer * e.operation.arrays[array].chunk;
}

// The function for an array of a group of this size; null: there is nothing to fold.
const Fold* fold_of(const Exchange& e, int64_t array, Compiled* function) {
  for (size_t k = 0; k < e.operation.folds.size(); ++k) {
    const Fold& fold = e.operation.folds[k];
    if (fold.array != array || fold.members != static_cast<int64_t>(e.members.size())) continue;
    *function = reinterpret_cast<Compiled>(
        e.pointers[e.far.speaker()][e.operation.operands + e.operation.results + k]);
    return &fold;
  }
  return nullptr;
}

// Pieces into which the steps of an array's fold are cut; 1 where the array is only copied.
int64_t pieces_of(const Exchange& e, int64_t array) {
  Compiled function;
  const Fold* fold = fold_of(e, array, &function);
  if (fold == nullptr) return 1;
  return std::min<int64_t>(fold->steps, kSharesPerMember * static_cast<int64_t>(e.members.size()));
}

// The root of array k as this member says it, where an operation has roots of run time; -1: it is
// none of the group.
int64_t root_of(Exchange* e, size_t member, int64_t k) {
  if (e->operation.numbers.empty()) return 0;
  int32_t root = static_cast<int32_t*>(e->operand(member, e->operation.operands - 1))[k];
  if (root >= 0 && root < static_cast<int64_t>(e->members.size())) return root;
  e->fail("root " + std::to_string(root) + " is none of the " + std::to_string(e->members.size()) +
          " devices of the group [collective-root]");
  return -1;
}

// Folds a piece. `written`: the member that the result is for; -1: all. Rows are shifted by bytes.
void fold(const Exchange& e, const Fold& how, Compiled function, int64_t written, int64_t begin,
          int64_t end, int64_t from = 0, int64_t to = 0) {
  std::vector<void*> arguments;
  for (int64_t which : how.parameters) {
    if (which >= 0) {
      arguments.push_back(bytes(e.operand(which, how.array)) + from);
    } else {
      size_t member = written < 0 ? static_cast<size_t>(-1 - which) : static_cast<size_t>(written);
      arguments.push_back(bytes(e.result(member, how.array)) + to);
    }
  }
  function(arguments.data(), begin, end);
}

void copy(void* to, const void* from, int64_t size) {
  if (size > 0 && to != from) memmove(to, from, size);
}

void clear(void* to, int64_t size) {
  if (size > 0) memset(to, 0, size);
}

void all_reduce(Exchange* e, int64_t array, int64_t piece, int64_t pieces) {
  Compiled function;
  if (const Fold* how = fold_of(*e, array, &function)) {
    // The others fold the rest.
    auto [first, end] = e->far.own_steps(*how);
    int64_t steps = end - first;
    fold(*e, *how, function, -1, first + steps * piece / pieces,
         first + steps * (piece + 1) / pieces);
  } else if (e->members.size() == 1) {
    copy(e->result(0, array), e->operand(0, array), size_of(*e, array));
  }
}

// The result of the root; zeros on the others. Each goes by the root that it was given.
void reduce(Exchange* e, int64_t array, int64_t piece, int64_t pieces) {
  Compiled function;
  const Fold* how = fold_of(*e, array, &function);
  for (size_t m = 0; m < e->members.size(); ++m) {
    if (e->far.is_far(m)) continue;
    int64_t root = root_of(e, m, array);
    if (root == static_cast<int64_t>(m)) {
      if (how != nullptr)
        fold(*e, *how, function, root, how->steps * piece / pieces,
             how->steps * (piece + 1) / pieces);
      else copy(e->result(m, array), e->operand(m, array), size_of(*e, array));
    } else if (piece == 0) {
      clear(e->result(m, array), size_of(*e, array));
    }
  }
}

void reduce_scatter(Exchange* e, int64_t array, size_t member) {
  Compiled function;
  const Rows& rows = e->operation.arrays[array];
  const Fold* how = fold_of(*e, array, &function);
  int64_t count = static_cast<int64_t>(e->members.size());
  if (how == nullptr && count == 1)
    return copy(e->result(0, array), e->operand(0, array), size_of(*e, array));
  for (int64_t o = 0; o < rows.outer && how != nullptr; ++o) {
    int64_t from = (o * count + static_cast<int64_t>(member)) * rows.chunk;
    fold(*e, *how, function, static_cast<int64_t>(member), 0, how->steps, from, o * rows.chunk);
  }
}

void all_gather(Exchange* e, int64_t array, size_t member) {
  const Rows& rows = e->operation.arrays[array];
  char* to = bytes(e->result(member, array));
  for (int64_t o = 0; o < rows.outer; ++o)
    for (size_t m = 0; m < e->members.size(); ++m, to += rows.chunk)
      copy(to, bytes(e->operand(m, array)) + o * rows.chunk, rows.chunk);
}

void all_to_all(Exchange* e, int64_t array, size_t member) {
  const Rows& rows = e->operation.arrays[array];
  size_t count = e->members.size();
  char* to = bytes(e->result(member, array));
  for (int64_t o = 0; o < rows.outer; ++o)
    for (size_t m = 0; m < count; ++m, to += rows.chunk) {
      int64_t row = o * static_cast<int64_t>(count) + static_cast<int64_t>(member);
      copy(to, bytes(e->operand(m, array)) + row * rows.chunk, rows.chunk);
    }
}

void all_to_all_tuple(Exchange* e, int64_t array, size_t member) {
  if (e->operation.arrays.size() != e->members.size())
    return e->fail(std::to_string(e->operation.arrays.size()) + " inputs for a group of " +
                   std::to_string(e->members.size()) + " devices [all-to-all]");
  int64_t own = static_cast<int64_t>(member);
  copy(e->result(member, array), e->operand(array, own), size_of(*e, array));
}

// The member that sends to this one; -1: none. Pairs of devices stand behind `from`.
int64_t source_of(const Exchange& e, size_t member, size_t from) {
  const std::vector<int64_t>& pairs = e.operation.numbers;
  for (size_t k = from; k + 1 < pairs.size(); k += 2) {
    if (pairs[k + 1] != e.members[member]) continue;
    auto at = std::find(e.members.begin(), e.members.end(), pairs[k]);
    if (at != e.members.end()) return at - e.members.begin();
  }
  return -1;
}

void permute(Exchange* e, int64_t array, size_t member) {
  int64_t source = source_of(*e, member, 0);
  if (source < 0) return clear(e->result(member, array), size_of(*e, array));
  copy(e->result(member, array), e->operand(source, array), size_of(*e, array));
}

// A box of a row-major array of `rank` dimensions: copied between two places, from the last
// dimension outwards.
struct Box {
  const int64_t *sizes, *from_dims, *to_dims;
  int64_t rank, item;
};

int64_t clamped_offset(const int64_t* dims, const int64_t* sizes, int64_t rank, int64_t item,
                       const Exchange& e, size_t member, int64_t first) {
  int64_t offset = 0;
  for (int64_t d = 0; d < rank; ++d) {
    int32_t start = *static_cast<int32_t*>(e.operand(member, first + d));
    int64_t most = dims[d] - sizes[d];
    offset = offset * dims[d] + std::clamp<int64_t>(start, 0, most);
  }
  return offset * item;
}

void copy_box(const Box& box, const char* from, char* to) {
  int64_t rows = 1, rank = box.rank;
  int64_t chunk = rank == 0 ? box.item : box.sizes[rank - 1] * box.item;
  for (int64_t d = 0; d + 1 < rank; ++d) rows *= box.sizes[d];
  for (int64_t row = 0; row < rows; ++row) {
    int64_t rest = row, at = 0, into = 0, step_at = box.item, step_into = box.item;
    if (rank > 0) step_at *= box.from_dims[rank - 1], step_into *= box.to_dims[rank - 1];
    for (int64_t d = rank - 2; d >= 0; --d) {
      at += rest % box.sizes[d] * step_at;
      into += rest % box.sizes[d] * step_into;
      rest /= box.sizes[d];
      step_at *= box.from_dims[d];
      step_into *= box.to_dims[d];
    }
    copy(to + into, from + at, chunk);
  }
}

// Slices of the source's input, written into this device's output, which else stays. The numbers
// are: how many slices, then for each of them input, output, the first operands that are starts in
// the input and in the output, bytes of an element, rank, sizes of input, output and slice; the
// pairs follow.
void permute_slices(Exchange* e, size_t member) {
  const std::vector<int64_t>& numbers = e->operation.numbers;
  size_t at = 1;
  std::vector<size_t> slices;
  for (int64_t k = 0; k < numbers[0]; ++k) {
    slices.push_back(at);
    at += 6 + 3 * static_cast<size_t>(numbers[at + 5]);
  }
  int64_t source = source_of(*e, member, at);
  if (source < 0) return;
  for (size_t slice : slices) {
    const int64_t* n = numbers.data() + slice;
    int64_t item = n[4], rank = n[5];
    Box box{n + 6 + 2 * rank, n + 6, n + 6 + rank, rank, item};
    size_t sender = static_cast<size_t>(source);
    int64_t from = clamped_offset(box.from_dims, box.sizes, rank, item, *e, sender, n[2]);
    int64_t to = clamped_offset(box.to_dims, box.sizes, rank, item, *e, member, n[3]);
    copy_box(box, bytes(e->operand(sender, n[0])) + from, bytes(e->result(member, n[1])) + to);
  }
}

void broadcast(Exchange* e, int64_t array, size_t member) {
  int64_t root = root_of(e, member, array);
  if (root >= 0) copy(e->result(member, array), e->operand(root, array), size_of(*e, array));
}

int64_t integer(void* data, int64_t width, int64_t k) {
  return width == 8 ? static_cast<int64_t*>(data)[k] : static_cast<int32_t*>(data)[k];
}

// Operands: x, output, input offsets, sizes, output offsets, what is received. The numbers are:
// bytes of a row, rows of x, rows of the output, how many offsets there are, their width.
void ragged_all_to_all(Exchange* e, size_t member) {
  const std::vector<int64_t>& n = e->operation.numbers;
  int64_t row = n[0], rows = n[1], places = n[2], width = n[4];
  int64_t updates = n[3] / static_cast<int64_t>(e->members.size());
  copy(e->result(member, 0), e->operand(member, 1), places * row);
  for (size_t d = 0; d < e->members.size(); ++d) {
    for (int64_t u = 0; u < updates; ++u) {
      int64_t k = static_cast<int64_t>(member) * updates + u;
      int64_t start = integer(e->operand(d, 2), width, k);
      int64_t size = integer(e->operand(d, 3), width, k);
      int64_t target = integer(e->operand(d, 4), width, k);
      if (size < 0 || start < 0 || target < 0 || size > rows || start > rows - size)
        return e->fail("device " + std::to_string(e->members[d]) + " sends rows " +
                       std::to_string(start) + " to " + std::to_string(start + size) + " of " +
                       std::to_string(rows) + " [ragged-all-to-all]");
      if (size > places || target > places - size)
        return e->fail("device " + std::to_string(e->members[d]) + " writes rows " +
                       std::to_string(target) + " to " + std::to_string(target + size) + " of " +
                       std::to_string(places) + " [ragged-all-to-all]");
      copy(bytes(e->result(member, 0)) + target * row, bytes(e->operand(d, 0)) + start * row,
           size * row);
    }
  }
}

}  // namespace

int64_t shares_of(const Exchange& e) {
  int64_t members = static_cast<int64_t>(e.members.size()), shares = 0;
  if (e.operation.kind == Exchanging::kBarrier) return 0;
  if (!is_folding(e)) return members * static_cast<int64_t>(e.operation.arrays.size());
  for (size_t k = 0; k < e.operation.arrays.size(); ++k)
    shares += pieces_of(e, static_cast<int64_t>(k));
  return shares;
}

void do_share(Exchange* e, int64_t share) {
  if (is_folding(*e)) {
    int64_t array = 0, pieces = pieces_of(*e, 0);
    for (; share >= pieces; pieces = pieces_of(*e, ++array)) share -= pieces;
    return e->operation.kind == Exchanging::kReduce ? reduce(e, array, share, pieces)
                                                    : all_reduce(e, array, share, pieces);
  }
  size_t count = e->members.size(), member = static_cast<size_t>(share) % count;
  int64_t array = share / static_cast<int64_t>(count);
  if (e->far.is_far(member)) return;
  switch (e->operation.kind) {
    case Exchanging::kReduceScatter:
      return reduce_scatter(e, array, member);
    case Exchanging::kAllGather:
      return all_gather(e, array, member);
    case Exchanging::kAllToAll:
      return all_to_all(e, array, member);
    case Exchanging::kAllToAllTuple:
      return all_to_all_tuple(e, array, member);
    case Exchanging::kPermute:
      return permute(e, array, member);
    case Exchanging::kPermuteSlices:
      return permute_slices(e, member);
    case Exchanging::kBroadcast:
      return broadcast(e, array, member);
    case Exchanging::kRaggedAllToAll:
      return ragged_all_to_all(e, member);
    default:
      return;
  }
}

}  // namespace hloom
