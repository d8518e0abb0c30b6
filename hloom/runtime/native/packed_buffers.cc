// The buffers of a custom call as XLA hands them to handlers.
#include "packed_buffers.h"

#include "packing.h"
#include "sort_keys.h"

namespace hloom {
namespace {

// Bits of an element of which XLA packs several in a byte; 0 for all other types.
int bits_of(int64_t dtype) {
  switch (dtype) {
    case kS4:
    case kU4:
    case kF4E2M1FN:
      return 4;
    case kS2:
    case kU2:
      return 2;
    default:
      return 0;
  }
}

int64_t elements_of(const hl_buffer& buffer) {
  int64_t count = 1;
  for (int64_t d = 0; d < buffer.rank; ++d) count *= buffer.dims[d];
  return count;
}

bool any_packed(const hl_buffer* buffers, int64_t count) {
  for (int64_t k = 0; k < count; ++k)
    if (bits_of(buffers[k].dtype) != 0) return true;
  return false;
}

// Integers with a sign have it in all bits above their own.
void extend_signs(char* elements, int64_t count, int bits) {
  auto* bytes = reinterpret_cast<unsigned char*>(elements);
  unsigned sign = 1U << (bits - 1);
  for (int64_t k = 0; k < count; ++k)
    bytes[k] = static_cast<unsigned char>((bytes[k] ^ sign) - sign);
}

}  // namespace

PackedBuffers::PackedBuffers(hl_context* context, const hl_call_frame* given, bool apart)
    : context_(context), given_(given), frame_(given), own_(*given) {
  if (apart || given->stage != HL_STAGE_EXECUTE) return;
  if (!any_packed(given->operands, given->operand_count) &&
      !any_packed(given->results, given->result_count))
    return;
  bool there = pack(given->operands, given->operand_count, true, &operands_) &&
               pack(given->results, given->result_count, false, &results_);
  own_.operands = operands_.data(), own_.results = results_.data();
  frame_ = there ? &own_ : nullptr;
}

PackedBuffers::~PackedBuffers() {
  for (const Packed& each : packed_) hl_free(context_, each.memory);
}

bool PackedBuffers::pack(const hl_buffer* from, int64_t count, bool is_read,
                         std::vector<hl_buffer>* to) {
  to->assign(from, from + count);
  for (hl_buffer& buffer : *to) {
    int bits = bits_of(buffer.dtype);
    int64_t elements = elements_of(buffer);
    if (bits == 0 || elements == 0) continue;
    buffer.data = memory_for(buffer, elements, bits, is_read);
    if (buffer.data == nullptr) return false;
  }
  return true;
}

// As many bytes as elements: a handler that believes the dimensions stays inside.
char* PackedBuffers::memory_for(const hl_buffer& buffer, int64_t elements, int bits, bool is_read) {
  for (const Packed& each : packed_)
    if (each.apart == buffer.data) return each.memory;
  auto* memory = static_cast<char*>(hl_alloc(context_, elements));
  if (memory == nullptr) {
    hl_set_error(context_, HL_RESOURCE_EXHAUSTED, "no memory to pack %lld elements",
                 static_cast<long long>(elements));
    return nullptr;
  }
  packed_.push_back({buffer.data, memory});
  if (is_read) pack_elements(memory, static_cast<const char*>(buffer.data), elements, bits);
  return memory;
}

void PackedBuffers::put_back() const {
  for (size_t k = 0; k < results_.size(); ++k) {
    const hl_buffer& apart = given_->results[k];
    int bits = bits_of(apart.dtype);
    int64_t elements = elements_of(apart);
    if (bits == 0 || elements == 0) continue;
    auto* to = static_cast<char*>(apart.data);
    unpack_elements(to, static_cast<const char*>(results_[k].data), elements, bits);
    if (apart.dtype == kS4 || apart.dtype == kS2) extend_signs(to, elements, bits);
  }
}

}  // namespace hloom
