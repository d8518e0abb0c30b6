// Linear algebra for libraries of hloom.aot: the runtime's own (hloom/runtime/native/linalg*.cc), which
// here works in memory that the caller lends, alone, and asks no other LAPACK.
//
// Compiled with HLOOM_NAMESPACE and HLOOM_PREFIX as the library is called, so that two can be linked.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#define HLOOM_PART(name) WITH_PREFIX(HLOOM_PREFIX, name)
#define hl_lapack_find WITH_PREFIX(HLOOM_PREFIX, hl_lapack_find)
#define hl_cholesky WITH_PREFIX(HLOOM_PREFIX, hl_cholesky)
#define hl_triangular_solve WITH_PREFIX(HLOOM_PREFIX, hl_triangular_solve)
#define hl_library_call WITH_PREFIX(HLOOM_PREFIX, hl_library_call)

#include "lent.inc"
//
#include "linalg.cc"
#include "linalg_calls.cc"
#include "linalg_dense.cc"

namespace hloom {

LapackThreads::LapackThreads(bool single) : single_(single) {}
LapackThreads::~LapackThreads() { (void)single_; }

}  // namespace hloom

extern "C" void* hl_lapack_find(const char*, int64_t*) { return nullptr; }

namespace {

constexpr int64_t kMostBuffers = 16, kMostAttributes = 8, kNameBytes = 32;

struct Description {
  char target[kNameBytes];
  int64_t operands, results, attributes;
  int64_t numbers[];  // of each buffer its type, rank and dimensions
};

struct Attribute {
  char name[kNameBytes];
  int64_t dtype, value;
};

}  // namespace

// A custom call: its description, then its attributes; addresses of operands and results.
extern "C" int32_t hl_library_call(hl_context* context, const void* described,
                                   const void* attributes, void* const* addresses) {
  using namespace hloom;
  auto* d = (const Description*)described;
  hl_buffer buffers[kMostBuffers];
  hl_attribute named[kMostAttributes];
  const int64_t* next = d->numbers;
  if (d->operands + d->results > kMostBuffers || d->attributes > kMostAttributes)
    return hl_set_error(context, HL_INTERNAL, "");
  for (int64_t k = 0; k < d->operands + d->results; k++) {
    int64_t rank = next[1];
    buffers[k] = {next[0], rank, next + 2, addresses[k]};
    next += 2 + rank;
  }
  for (int64_t k = 0; k < d->attributes; k++) {
    auto& a = ((const Attribute*)attributes)[k];
    named[k] = {a.name, (int64_t)strlen(a.name), HL_ATTRIBUTE_SCALAR, a.dtype, 1, &a.value};
  }
  hl_call_frame frame = {};
  frame.operand_count = d->operands, frame.operands = buffers;
  frame.result_count = d->results, frame.results = buffers + d->operands;
  frame.attribute_count = d->attributes, frame.attributes = named;
  frame.stage = HL_STAGE_EXECUTE;
  for (const BuiltIn* call = linalg_calls(); call->name; call++)
    if (!strcmp(call->name, d->target)) return call->handler(context, &frame);
  return hl_set_error(context, HL_NOT_FOUND, "");
}
