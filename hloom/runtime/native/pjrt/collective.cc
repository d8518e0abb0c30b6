// Collectives between the devices of a region: each reads the others' operands where they stand.
#include <math.h>
#include <string.h>

#include <algorithm>
#include <complex>

#include "meeting.h"

namespace hloom::pjrt {
namespace {

// As hloom/plugin/manual.py numbers them.
enum Kind {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kPermute,
  kBroadcast,
  kPartitionId,
  kReplicaId
};
enum Reduction { kAdd, kMaximum, kMinimum, kMultiply, kAnd, kOr };

// Numbers of types in the protobuf enum.
enum {
  kPred = 1,
  kS8,
  kS16,
  kS32,
  kS64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kF32,
  kF64,
  kC64 = 15,
  kBF16 = 16,
  kC128 = 18
};

int64_t item_bytes(int64_t dtype) {
  switch (dtype) {
    case kS16:
    case kU16:
    case kF16:
    case kBF16:
      return 2;
    case kS32:
    case kU32:
    case kF32:
      return 4;
    case kS64:
    case kU64:
    case kF64:
    case kC64:
      return 8;
    case kC128:
      return 16;
    default:
      return 1;
  }
}

int64_t count_of(const hl_buffer& buffer, int64_t from = 0, int64_t to = -1) {
  int64_t count = 1;
  for (int64_t d = from; d < (to < 0 ? buffer.rank : to); ++d) count *= buffer.dims[d];
  return count;
}

// -- numbers narrower than float, computed as float

struct Bf16 {
  uint16_t bits;
  float wide() const {
    uint32_t word = static_cast<uint32_t>(bits) << 16;
    float value;
    memcpy(&value, &word, 4);
    return value;
  }
  static Bf16 of(float value) {
    uint32_t word;
    memcpy(&word, &value, 4);
    if (value != value) return {static_cast<uint16_t>(word >> 16 | 0x40)};
    return {static_cast<uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16)};
  }
};

struct F16 {
  uint16_t bits;
  float wide() const {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float value = exponent == 0    ? ldexpf(static_cast<float>(fraction), -24)
                  : exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                                   : ldexpf(static_cast<float>(fraction + 1024), exponent - 25);
    return bits >> 15 ? -value : value;
  }
  static F16 of(float value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    float size = fabsf(value);
    if (value != value) return {static_cast<uint16_t>(sign | 0x7e00)};
    if (size >= 65520.0f) return {static_cast<uint16_t>(sign | 0x7c00)};
    if (size < 6.103515625e-05f)
      return {static_cast<uint16_t>(sign | static_cast<uint16_t>(rintf(ldexpf(size, 24))))};
    int exponent;
    float fraction = frexpf(size, &exponent);  // in [0.5, 1)
    int rounded = static_cast<int>(rintf(ldexpf(fraction, 11)));
    if (rounded == 2048) rounded = 1024, ++exponent;
    return {static_cast<uint16_t>(sign | ((exponent + 14) << 10) | (rounded - 1024))};
  }
};

template <typename T>
struct Wide {
  using type = T;
};
template <>
struct Wide<Bf16> {
  using type = float;
};
template <>
struct Wide<F16> {
  using type = float;
};

template <typename T>
typename Wide<T>::type widened(T value) {
  if constexpr (std::is_same_v<T, typename Wide<T>::type>) return value;
  else return value.wide();
}

template <typename T>
T narrowed(typename Wide<T>::type value) {
  if constexpr (std::is_same_v<T, typename Wide<T>::type>) return value;
  else return T::of(value);
}

template <typename W>
constexpr bool kIsComplex =
    std::is_same_v<W, std::complex<float>> || std::is_same_v<W, std::complex<double>>;

template <Reduction how, typename W>
W combined(W a, W b) {
  if constexpr (how == kAdd) return static_cast<W>(a + b);
  if constexpr (how == kMultiply) return static_cast<W>(a * b);
  if constexpr (!kIsComplex<W>) {
    if constexpr (how == kMaximum) return a > b || a != a ? a : b;  // NaN stays
    if constexpr (how == kMinimum) return a < b || a != a ? a : b;
    if constexpr (std::is_integral_v<W>) {
      if constexpr (how == kAnd) return static_cast<W>(a & b);
      if constexpr (how == kOr) return static_cast<W>(a | b);
    }
  }
  return a;
}

// Elements of the members' operands, combined in the members' order.
template <Reduction how, typename T>
void fold(char* to, const std::vector<const char*>& from, int64_t count) {
  for (int64_t k = 0; k < count; ++k) {
    auto sum = widened(reinterpret_cast<const T*>(from[0])[k]);
    for (size_t m = 1; m < from.size(); ++m)
      sum = combined<how>(sum, widened(reinterpret_cast<const T*>(from[m])[k]));
    reinterpret_cast<T*>(to)[k] = narrowed<T>(sum);
  }
}

using Fold = void (*)(char*, const std::vector<const char*>&, int64_t);

template <typename T>
Fold fold_of(int64_t how) {
  switch (how) {
    case kAdd:
      return fold<kAdd, T>;
    case kMultiply:
      return fold<kMultiply, T>;
    case kMaximum:
      return kIsComplex<T> ? nullptr : fold<kMaximum, T>;
    case kMinimum:
      return kIsComplex<T> ? nullptr : fold<kMinimum, T>;
    case kAnd:
      return std::is_integral_v<T> ? fold<kAnd, T> : nullptr;
    case kOr:
      return std::is_integral_v<T> ? fold<kOr, T> : nullptr;
    default:
      return nullptr;
  }
}

Fold fold_for(int64_t dtype, int64_t how) {
  switch (dtype) {
    case kPred:
      return fold_of<bool>(how);
    case kS8:
      return fold_of<int8_t>(how);
    case kS16:
      return fold_of<int16_t>(how);
    case kS32:
      return fold_of<int32_t>(how);
    case kS64:
      return fold_of<int64_t>(how);
    case kU8:
      return fold_of<uint8_t>(how);
    case kU16:
      return fold_of<uint16_t>(how);
    case kU32:
      return fold_of<uint32_t>(how);
    case kU64:
      return fold_of<uint64_t>(how);
    case kF16:
      return fold_of<F16>(how);
    case kBF16:
      return fold_of<Bf16>(how);
    case kF32:
      return fold_of<float>(how);
    case kF64:
      return fold_of<double>(how);
    case kC64:
      return fold_of<std::complex<float>>(how);
    case kC128:
      return fold_of<std::complex<double>>(how);
    default:
      return nullptr;
  }
}

// -- what each does, when all members have come

struct Call {
  const hl_call_frame* frame;
  const Table* table;
  size_t own, members;
  int64_t dimension, split;
  int64_t reduction;
  int64_t source;  // of a permutation; -1: none

  const hl_buffer& operand(size_t member, int64_t k) const {
    return table->frames[member]->operands[k];
  }
  const hl_buffer& result(size_t member, int64_t k) const {
    return table->frames[member]->results[k];
  }
  const char* data(size_t member, int64_t k) const {
    return static_cast<const char*>(operand(member, k).data);
  }
};

// Every member combines one piece, and gives it to all.
void all_reduce(const Call& c, int64_t k, Fold fold) {
  const hl_buffer& given = c.operand(c.own, k);
  int64_t count = count_of(given), item = item_bytes(given.dtype),
          members = static_cast<int64_t>(c.members);
  int64_t piece = (count + members - 1) / members,
          begin = std::min(count, piece * static_cast<int64_t>(c.own));
  int64_t size = std::min(count - begin, piece);
  if (size <= 0) return;
  std::vector<const char*> from;
  for (size_t m = 0; m < c.members; ++m) from.push_back(c.data(m, k) + begin * item);
  char* first = static_cast<char*>(c.result(0, k).data) + begin * item;
  fold(first, from, size);
  for (size_t m = 1; m < c.members; ++m)
    memcpy(static_cast<char*>(c.result(m, k).data) + begin * item, first, size * item);
}

void reduce_scatter(const Call& c, int64_t k, Fold fold) {
  const hl_buffer &given = c.operand(c.own, k), &made = c.result(c.own, k);
  int64_t item = item_bytes(given.dtype), outer = count_of(given, 0, c.dimension);
  int64_t chunk = count_of(made, c.dimension);
  for (int64_t o = 0; o < outer; ++o) {
    std::vector<const char*> from;
    for (size_t m = 0; m < c.members; ++m)
      from.push_back(c.data(m, k) +
                     (o * static_cast<int64_t>(c.members) + static_cast<int64_t>(c.own)) * chunk *
                         item);
    fold(static_cast<char*>(made.data) + o * chunk * item, from, chunk);
  }
}

void all_gather(const Call& c, int64_t k) {
  const hl_buffer &given = c.operand(c.own, k), &made = c.result(c.own, k);
  int64_t outer = count_of(given, 0, c.dimension);
  int64_t chunk = count_of(given, c.dimension) * item_bytes(given.dtype);
  char* to = static_cast<char*>(made.data);
  for (int64_t o = 0; o < outer; ++o)
    for (size_t m = 0; m < c.members; ++m, to += chunk) memcpy(to, c.data(m, k) + o * chunk, chunk);
}

void all_to_all(const Call& c, int64_t k) {
  const hl_buffer &given = c.operand(c.own, k), &made = c.result(c.own, k);
  int64_t item = item_bytes(given.dtype);
  std::vector<int64_t> block(given.dims, given.dims + given.rank);
  block[c.split] /= static_cast<int64_t>(c.members);
  std::vector<int64_t> from = row_major_strides(given.dims, given.rank, item);
  std::vector<int64_t> to = row_major_strides(made.dims, made.rank, item);
  for (int64_t n : block)
    if (n == 0) return;
  for (size_t m = 0; m < c.members; ++m)
    copy_strided(static_cast<char*>(made.data) +
                     static_cast<int64_t>(m) * block[c.dimension] * to[c.dimension],
                 to.data(),
                 c.data(m, k) + static_cast<int64_t>(c.own) * block[c.split] * from[c.split],
                 from.data(), block.data(), given.rank, item);
}

void copy_from(const Call& c, int64_t k, int64_t member) {
  const hl_buffer& made = c.result(c.own, k);
  int64_t bytes = count_of(made) * item_bytes(made.dtype);
  if (bytes == 0) return;
  if (member < 0) memset(made.data, 0, bytes);
  else memcpy(made.data, c.data(static_cast<size_t>(member), k), bytes);
}

int32_t compute(hl_context* context, const Call& c, int64_t kind) {
  for (int64_t k = 0; k < c.frame->operand_count; ++k) {
    Fold fold = nullptr;
    if (kind == kAllReduce || kind == kReduceScatter) {
      fold = fold_for(c.operand(c.own, k).dtype, c.reduction);
      if (fold == nullptr)
        return hl_set_error(
            context, HL_UNIMPLEMENTED,
            "a collective cannot combine elements of type %lld so [collective-type]",
            static_cast<long long>(c.operand(c.own, k).dtype));
    }
    switch (kind) {
      case kAllReduce:
        all_reduce(c, k, fold);
        break;
      case kReduceScatter:
        reduce_scatter(c, k, fold);
        break;
      case kAllGather:
        all_gather(c, k);
        break;
      case kAllToAll:
        all_to_all(c, k);
        break;
      case kPermute:
        copy_from(c, k, c.source);
        break;
      default:
        copy_from(c, k, 0);
    }
  }
  return HL_OK;
}

std::vector<int64_t> numbers(const hl_call_frame* frame, const char* name) {
  for (int64_t k = 0; k < frame->attribute_count; ++k) {
    const hl_attribute& a = frame->attributes[k];
    if (std::string(a.name, a.name_size) != name || a.kind != HL_ATTRIBUTE_ARRAY) continue;
    auto* data = static_cast<const int64_t*>(a.data);
    return std::vector<int64_t>(data, data + a.count);
  }
  return {};
}

// The seat that meets others in a region `levels` around the run's own: which of the places of all
// regions from there inwards, how many each device there has, how many there are.
struct Seat {
  Run* around;
  int64_t number, inside = 1, count;
};

Seat seat_in(Run* run, int64_t levels) {
  Seat place{run, run->ordinal, 1, run->program->partitions};
  for (int64_t k = 0; k < levels && place.around->outer != nullptr; ++k) {
    place.inside = place.count;
    place.around = place.around->outer;
    place.number += place.around->ordinal * place.count;
    place.count *= place.around->program->partitions;
  }
  return place;
}

// The group of `place`, as its `size` numbers stand in a row; -1 fills a group that is smaller.
std::vector<int64_t> group_with(int64_t place, const std::vector<int64_t>& groups, size_t size) {
  for (size_t k = 0; k + size <= groups.size(); k += size) {
    auto begin = groups.begin() + static_cast<int64_t>(k), end = begin + static_cast<int64_t>(size);
    if (std::find(begin, end, place) == end) continue;
    return std::vector<int64_t>(begin, std::find(begin, end, -1));
  }
  return {};
}

int32_t tell_number(hl_context* context, const hl_call_frame* frame, int64_t kind, const Run& run,
                    std::vector<int64_t> of_places) {
  if (kind == kReplicaId) of_places.assign(run.path + 1, 0);
  if (run.path >= static_cast<int64_t>(of_places.size()))
    return hl_set_error(context, HL_UNIMPLEMENTED,
                        "partition-id in a function that several regions call [region]");
  *static_cast<uint32_t*>(frame->results[0].data) = static_cast<uint32_t>(of_places[run.path]);
  return HL_OK;
}

}  // namespace

int32_t run_collective(hl_context* context, const hl_call_frame* frame) {
  auto* run = static_cast<Run*>(context->user);
  if (run == nullptr || run->meeting == nullptr)
    return hl_set_error(context, HL_FAILED_PRECONDITION,
                        "a collective outside of a region [region]");
  int64_t kind = attribute_number(frame, "kind", -1);
  Call call{frame,
            nullptr,
            0,
            0,
            attribute_number(frame, "dimension", 0),
            attribute_number(frame, "split", 0),
            attribute_number(frame, "reduction", 0),
            -1};
  std::vector<int64_t> groups = numbers(frame, "groups"), members;
  if (kind == kPartitionId || kind == kReplicaId)  // groups: one device for each place
    return tell_number(context, frame, kind, *run, std::move(groups));
  Seat place = seat_in(run, attribute_number(frame, "levels", 0));
  if (kind == kPermute) {
    for (int64_t p = 0; p < place.count; ++p) members.push_back(p);
    for (size_t k = 0; k + 1 < groups.size(); k += 2)
      if (groups[k + 1] == place.number) call.source = groups[k];
  } else {
    members = group_with(place.number, groups, attribute_number(frame, "group_size", 1));
  }
  if (members.empty()) {  // a device of no group: a broadcast gives it zeros
    for (int64_t k = 0; k < frame->result_count; ++k)
      memset(frame->results[k].data, 0,
             count_of(frame->results[k]) * item_bytes(frame->results[k].dtype));
    return HL_OK;
  }
  call.own = std::find(members.begin(), members.end(), place.number) - members.begin();
  call.members = members.size();
  Meeting& meeting = *place.around->meeting;
  Table* table = meeting.arrive(frame->state, members, call.own, frame, place.inside);
  if (table == nullptr)
    return hl_set_error(context, meeting.code(), "%s", meeting.message().c_str());
  call.table = table;
  int32_t status = compute(context, call, kind);
  meeting.depart(table);
  return status;
}

}  // namespace hloom::pjrt
