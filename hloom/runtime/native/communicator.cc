// Operations as compiled code describes them, who meets for them, and what compiled code calls.
#include "communicator.h"

#include <string.h>

#include <algorithm>

#include "context.h"

namespace hloom {
namespace {

// Takes numbers of a description one by one.
class Reader {
 public:
  explicit Reader(const int64_t* at) : at_(at) {}
  int64_t next() { return *at_++; }
  std::vector<int64_t> list(int64_t count) {
    std::vector<int64_t> found(at_, at_ + count);
    at_ += count;
    return found;
  }

 private:
  const int64_t* at_;
};

}  // namespace

const Operation& Operations::parsed(const int64_t* description, const char* name) {
  std::lock_guard<std::mutex> guard(mutex_);
  auto& slot = operations_[description];
  if (slot != nullptr) return *slot;
  slot = std::make_unique<Operation>();
  Operation& made = *slot;
  Reader read(description);
  made.number = read.next();
  made.kind = static_cast<Exchanging>(read.next());
  made.name = name;
  made.operands = read.next();
  made.results = read.next();
  for (int64_t count = read.next(); count > 0; --count)
    made.groups.push_back(read.list(read.next()));
  for (int64_t count = read.next(); count > 0; --count) {
    int64_t outer = read.next();
    made.arrays.push_back({outer, read.next()});
  }
  for (int64_t count = read.next(); count > 0; --count) {
    Fold fold{read.next(), 0, 0, 0, {}};
    fold.members = read.next();
    fold.steps = read.next();
    fold.step_bytes = read.next();
    fold.parameters = read.list(read.next());
    made.folds.push_back(std::move(fold));
  }
  made.numbers = read.list(read.next());
  return made;
}

const Operations::Clique& Operations::clique(const Operation& operation, int64_t device) {
  std::lock_guard<std::mutex> guard(mutex_);
  auto& slot = known_[{&operation, device}];
  if (slot != nullptr) return *slot;
  slot = std::make_unique<Clique>();
  for (const std::vector<int64_t>& group : operation.groups) {
    if (std::find(group.begin(), group.end(), device) == group.end()) continue;
    Clique& made = *slot;
    made.members = group;
    // Groups of pairs have no order.
    bool has_order =
        operation.kind != Exchanging::kPermute && operation.kind != Exchanging::kPermuteSlices;
    if (!has_order) std::sort(made.members.begin(), made.members.end());
    made.own = std::find(made.members.begin(), made.members.end(), device) - made.members.begin();
    cliques_.fetch_add(1);
    break;
  }
  return *slot;
}

namespace {

Communicator* communicator_of(hl_context* context, const char* name) {
  Communicator* found = of(context)->communicator;
  if (found == nullptr)
    hl_set_error(context, HL_FAILED_PRECONDITION,
                 "%s is among several devices, and one runs alone: run the program on all of them "
                 "[one-device]",
                 name);
  return found;
}

// The device that `own` takes from (as target) or gives to (as source); -1: none.
int64_t other_end(const int64_t* pairs, int64_t count, int64_t own, int64_t side) {
  for (int64_t k = 0; k < count; ++k)
    if (pairs[2 * k + side] == own) return pairs[2 * k + 1 - side];
  return -1;
}

}  // namespace
}  // namespace hloom

HL_API int32_t hl_collective_start(hl_context* context, const int64_t* description,
                                   const char* name, void** pointers) {
  hloom::Communicator* own = hloom::communicator_of(context, name);
  return own == nullptr ? static_cast<int32_t>(HL_FAILED_PRECONDITION)
                        : own->start(description, name, pointers);
}

HL_API int32_t hl_collective_done(hl_context* context, const int64_t* description,
                                  const char* name) {
  hloom::Communicator* own = hloom::communicator_of(context, name);
  return own == nullptr ? static_cast<int32_t>(HL_FAILED_PRECONDITION) : own->done(description);
}

HL_API int32_t hl_collective(hl_context* context, const int64_t* description, const char* name,
                             void** pointers) {
  int32_t status = hl_collective_start(context, description, name, pointers);
  return status == HL_OK ? hl_collective_done(context, description, name) : status;
}

// `pairs`: source, target, source...; null: what a device sends, it receives itself.
HL_API int32_t hl_send(hl_context* context, const char* name, int64_t channel, const int64_t* pairs,
                       int64_t count, const void* data, int64_t bytes) {
  hloom::Communicator* own = hloom::communicator_of(context, name);
  if (own == nullptr) return HL_FAILED_PRECONDITION;
  if (pairs == nullptr) return own->send(channel, own->device(), data, bytes);
  for (int64_t k = 0; k < count; ++k) {
    if (pairs[2 * k] != own->device()) continue;
    int32_t status = own->send(channel, pairs[2 * k + 1], data, bytes);
    if (status != HL_OK) return status;
  }
  return HL_OK;
}

// A device that is no target gets zeros.
HL_API int32_t hl_receive(hl_context* context, const char* name, int64_t channel,
                          const int64_t* pairs, int64_t count, void* data, int64_t bytes) {
  hloom::Communicator* own = hloom::communicator_of(context, name);
  if (own == nullptr) return HL_FAILED_PRECONDITION;
  int64_t source = own->device();
  if (pairs != nullptr) source = hloom::other_end(pairs, count, own->device(), 1);
  if (source >= 0) return own->receive(channel, source, data, bytes, name);
  if (bytes > 0) memset(data, 0, bytes);
  return HL_OK;
}

// How long this device has waited for others so far.
HL_API int64_t hl_device_waited_ns(hl_context* context) {
  hloom::Communicator* own = hloom::of(context)->communicator;
  return own == nullptr ? 0 : own->waited_ns();
}

// The number of this device divided by one number, modulo another.
HL_API int32_t hl_device_number(hl_context* context, const char* name, int64_t divisor,
                                int64_t modulus, uint32_t* result) {
  hloom::Communicator* own = hloom::communicator_of(context, name);
  if (own == nullptr) return HL_FAILED_PRECONDITION;
  *result = static_cast<uint32_t>(own->device() / divisor % modulus);
  return HL_OK;
}
