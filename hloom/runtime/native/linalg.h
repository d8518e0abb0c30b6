// HLO's own linear algebra on row-major batches. See ROUTINES.md.
#pragma once
#include "hl.h"

#ifdef __cplusplus
extern "C" {
#endif

int32_t hl_cholesky(hl_context* ctx, int64_t dtype, int64_t batch, int64_t n, int64_t lower,
                    const void* in, void* out);
int32_t hl_triangular_solve(hl_context* ctx, int64_t dtype, int64_t batch, int64_t m, int64_t n,
                            int64_t left, int64_t lower, int64_t trans, int64_t unit, const void* a,
                            const void* b, void* out);

#ifdef __cplusplus
}
#endif
