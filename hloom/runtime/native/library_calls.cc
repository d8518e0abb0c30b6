// Custom calls that HLO itself knows by name, on row-major operands: Qr,
// ProductOfElementaryHouseholderReflectors and TopK.
#include "library_calls.h"

#include <string.h>

#include "linalg_batch.h"
#include "sort_keys.h"
#include "topk.h"

namespace hloom {
namespace {

template <class T>
void transposed(const T* in, int64_t rows, int64_t columns, T* out) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) out[i + j * rows] = in[i * columns + j];
}

// Sizes of the matrices of an operand; false for what is no batch of matrices.
bool matrices(const hl_buffer& b, int64_t* batch, int64_t* m, int64_t* n) {
  if (b.rank < 2) return false;
  *batch = 1, *m = b.dims[b.rank - 2], *n = b.dims[b.rank - 1];
  for (int64_t d = 0; d < b.rank - 2; d++) *batch *= b.dims[d];
  return true;
}

template <class T>
int32_t qr_of(hl_context* ctx, const hl_call_frame* f, int64_t batch, int64_t m, int64_t n) {
  int64_t k = std::min(m, n), size = m * n;
  return batched(ctx, batch, size * k / 8, (size + n) * sizeof(T), false,
                 [&](int64_t i, void* work) {
                   T *a = (T*)work, *tau = (T*)f->results[1].data + i * k;
                   transposed((const T*)f->operands[0].data + i * size, m, n, a);
                   dense<T>().geqrf(m, n, a, m, tau, a + size);
                   transposed(a, n, m, (T*)f->results[0].data + i * size);
                 });
}

template <class T>
int32_t product_of(hl_context* ctx, const hl_call_frame* f, int64_t batch, int64_t m, int64_t n) {
  const hl_buffer& taus = f->operands[1];
  int64_t k = taus.rank ? taus.dims[taus.rank - 1] : 0, size = m * n;
  return batched(ctx, batch, size * k / 4, (size + n) * sizeof(T), false,
                 [&](int64_t i, void* work) {
                   T* a = (T*)work;
                   transposed((const T*)f->operands[0].data + i * size, m, n, a);
                   dense<T>().orgqr(m, n, k, a, m, (const T*)taus.data + i * k, a + size);
                   transposed(a, n, m, (T*)f->results[0].data + i * size);
                 });
}

int32_t refused(hl_context* ctx, const char* name) {
  return hl_set_error(ctx, HL_INVALID_ARGUMENT,
                      "%s: operands and results are not those of this custom call (matrices of "
                      "f32, f64, c64 or c128)",
                      name);
}

int32_t qr(hl_context* ctx, const hl_call_frame* f) {
  int64_t batch, m, n;
  if (f->operand_count != 1 || f->result_count != 2 || !matrices(f->operands[0], &batch, &m, &n))
    return refused(ctx, "Qr");
  if (m * n == 0) return HL_OK;
  switch (f->operands[0].dtype) {
    case kF32:
      return qr_of<float>(ctx, f, batch, m, n);
    case kF64:
      return qr_of<double>(ctx, f, batch, m, n);
    case kC64:
      return qr_of<Complex<float>>(ctx, f, batch, m, n);
    case kC128:
      return qr_of<Complex<double>>(ctx, f, batch, m, n);
    default:
      return refused(ctx, "Qr");
  }
}

int32_t product(hl_context* ctx, const hl_call_frame* f) {
  const char* name = "ProductOfElementaryHouseholderReflectors";
  int64_t batch, m, n;
  if (f->operand_count != 2 || f->result_count != 1 || !matrices(f->operands[0], &batch, &m, &n))
    return refused(ctx, name);
  if (m * n == 0) return HL_OK;
  switch (f->operands[0].dtype) {
    case kF32:
      return product_of<float>(ctx, f, batch, m, n);
    case kF64:
      return product_of<double>(ctx, f, batch, m, n);
    case kC64:
      return product_of<Complex<float>>(ctx, f, batch, m, n);
    case kC128:
      return product_of<Complex<double>>(ctx, f, batch, m, n);
    default:
      return refused(ctx, name);
  }
}

// k is the last dimension of the results; `largest` may be given as an attribute.
int32_t topk(hl_context* ctx, const hl_call_frame* f) {
  if (f->operand_count != 1 || f->result_count != 2 || f->operands[0].rank < 1 ||
      f->results[0].rank != f->operands[0].rank || f->results[1].dtype != kS32)
    return hl_set_error(ctx, HL_INVALID_ARGUMENT,
                        "TopK: not one operand with values and s32 indices of its rank");
  const hl_buffer& x = f->operands[0];
  int64_t rows = 1, flags = 1;
  for (int64_t d = 0; d < x.rank - 1; d++) rows *= x.dims[d];
  for (int64_t i = 0; i < f->attribute_count; i++) {
    const hl_attribute& a = f->attributes[i];
    if (a.kind == HL_ATTRIBUTE_SCALAR && a.dtype == kPred && a.name_size == 7 &&
        !memcmp(a.name, "largest", 7))
      flags = *(const uint8_t*)a.data != 0;
  }
  return hl_topk(ctx, rows, x.dims[x.rank - 1], f->results[0].dims[x.rank - 1], x.dtype, flags,
                 x.data, f->results[0].data, (int32_t*)f->results[1].data);
}

const BuiltIn kCalls[] = {{"Qr", qr},
                          {"ProductOfElementaryHouseholderReflectors", product},
                          {"TopK", topk},
                          {nullptr, nullptr}};

}  // namespace

const BuiltIn* library_calls() { return kCalls; }

}  // namespace hloom
