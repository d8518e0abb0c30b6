// Regions: hl_parallel_for, as programs call it.
#include "context.h"
#include "pool.h"
#include "steps.h"

namespace hloom {
namespace {

void run_alone(const ParallelRegion& region, int64_t chunks) {
  for (int64_t chunk = 0; chunk < chunks; ++chunk) region.run(chunk);
}

// A region whose chunks number more than a slot can count: in parts of whole chunks.
struct Part {
  const ParallelRegion* region;
  int64_t first_chunk;
};

void run_part(void* args, int64_t begin, int64_t end) {
  const Part* part = static_cast<Part*>(args);
  for (int64_t chunk = begin; chunk < end; ++chunk) part->region->run(part->first_chunk + chunk);
}

void share(Context* context, const ParallelRegion& region, int64_t chunks, int64_t serial_ns) {
  constexpr int64_t most = int64_t{1} << 31;
  hl_pool* pool = context->pool;
  Slot* slot = context->slot;
  bool borrowed = slot == nullptr || context->slot_generation != pool_generation(pool);
  if (borrowed) slot = acquire_slot(pool);
  if (slot == nullptr) {
    run_alone(region, chunks);
    return;
  }
  if (chunks <= most) {
    run_shared(pool, slot, region, static_cast<uint32_t>(chunks), serial_ns);
  } else {
    for (int64_t first = 0; first < chunks; first += most) {
      int64_t count = chunks - first < most ? chunks - first : most;
      Part part{&region, first};
      run_shared(pool, slot, {run_part, &part, count, 1}, static_cast<uint32_t>(count), -1);
    }
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
