// Regions: hl_parallel_for, as programs call it.
#include "context.h"
#include "pool.h"
#include "steps.h"

namespace hloom {
namespace {

void run_alone(const ParallelRegion& region, int64_t chunks) {
  for (int64_t chunk = 0; chunk < chunks; ++chunk) region.run(chunk);
}

// A region whose chunks number more than a slot can count: several of them at a time.
void run_chunks(void* args, int64_t begin, int64_t end) {
  const ParallelRegion* region = static_cast<ParallelRegion*>(args);
  for (int64_t chunk = begin; chunk < end; ++chunk) region->run(chunk);
}

void share(Context* context, const ParallelRegion& region, int64_t chunks, int64_t serial_ns) {
  hl_pool* pool = context->pool;
  Slot* slot = context->slot;
  bool borrowed = slot == nullptr || context->slot_generation != pool_generation(pool);
  if (borrowed) slot = acquire_slot(pool);
  if (slot == nullptr) {
    run_alone(region, chunks);
    return;
  }
  if (chunks <= kMostChunks) {
    run_shared(pool, slot, region, static_cast<uint32_t>(chunks), serial_ns);
  } else {
    int64_t together = (chunks - 1) / kMostChunks + 1;
    int64_t count = (chunks - 1) / together + 1;
    ParallelRegion whole = region;
    run_shared(pool, slot, {run_chunks, &whole, chunks, together}, static_cast<uint32_t>(count),
               serial_ns);
  }
  if (borrowed) release_slot(pool, slot);
}

}  // namespace
}  // namespace hloom

HL_API void hl_parallel_for_ns(hl_context* context, hl_range_function fn, void* args, int64_t n,
                               int64_t grain, int64_t serial_ns) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  hloom::StepSpan step(context, reinterpret_cast<const void*>(fn), nullptr);
  if (n <= grain) {
    fn(args, 0, n);
    return;
  }
  hloom::ParallelRegion region{fn, args, n, grain};
  int64_t chunks = n / grain + (n % grain != 0);
  hloom::Context* inner = hloom::of(context);
  // Nested, or met by another thread of the same program: whoever meets it runs it.
  if (context->threads <= 1 || context->pool == nullptr ||
      (serial_ns >= 0 && serial_ns < hloom::kWorthSharingNs) ||
      inner->in_region.exchange(1, std::memory_order_acquire) != 0) {
    hloom::run_alone(region, chunks);
    return;
  }
  hloom::share(inner, region, chunks, serial_ns);
  inner->in_region.store(0, std::memory_order_release);
}

HL_API void hl_parallel_for(hl_context* context, hl_range_function fn, void* args, int64_t n,
                            int64_t grain) {
  hl_parallel_for_ns(context, fn, args, n, grain, -1);
}
