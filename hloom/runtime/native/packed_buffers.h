// The buffers of a custom call as XLA hands them to handlers: elements below a byte are packed.
#pragma once
#include <vector>

#include "custom_call.h"

namespace hloom {

// A frame whose arrays of elements below a byte are packed, in memory of its own while the call
// lasts. Dimensions still count elements, as XLA's do. What stands in one place in the frame that
// is given (a result that aliases an operand) stands in one place here.
class PackedBuffers {
 public:
  // With `apart` the frame is the given one.
  PackedBuffers(hl_context* context, const hl_call_frame* given, bool apart = false);
  ~PackedBuffers();
  PackedBuffers(const PackedBuffers&) = delete;
  PackedBuffers& operator=(const PackedBuffers&) = delete;

  // The frame to call with; null: there is no memory, and the context says so.
  const hl_call_frame* frame() const { return frame_; }
  // Takes the results apart, after the call.
  void put_back() const;

 private:
  struct Packed {
    void* apart;
    char* memory;
  };
  bool pack(const hl_buffer* from, int64_t count, bool is_read, std::vector<hl_buffer>* to);
  char* memory_for(const hl_buffer& buffer, int64_t elements, int bits, bool is_read);

  hl_context* context_;
  const hl_call_frame* given_;
  const hl_call_frame* frame_;
  hl_call_frame own_;
  std::vector<Packed> packed_;
  std::vector<hl_buffer> operands_, results_;
};

}  // namespace hloom
