// Frames of custom calls are put together here from what never changes and this run's pointers.
#include "call_site.h"

#include <stdio.h>
#include <string.h>

#include <atomic>

#include "context.h"
#include "steps.h"
#include "xla_ffi.h"

namespace {

// Buffers of most calls fit here; more are taken from the context's memory.
constexpr int64_t kFew = 24;

std::atomic<int64_t> runs{0};

// Says which call failed before what its handler said; one that said nothing still ends the program.
int32_t explain(hl_context* context, hl_call_site* site, int32_t status) {
  hl_set_error(context, status, "failed with status %d", status);
  hloom::Context* inner = hloom::of(context);
  char words[sizeof(inner->message)];
  memcpy(words, inner->message, sizeof(words));
  words[sizeof(words) - 1] = 0;
  snprintf(inner->message, sizeof(inner->message), "%s: %.1500s", site->name, words);
  return status;
}

int32_t run(hl_context* context, hl_call_site* site, int64_t stage, const hl_buffer* operands,
            const hl_buffer* results) {
  hl_call_frame frame{};
  frame.operand_count = site->operand_count;
  frame.operands = operands;
  frame.result_count = site->result_count;
  frame.results = results;
  frame.attribute_count = site->attribute_count;
  frame.attributes = site->attributes;
  frame.stage = stage;
  frame.run_id = hloom::of(context)->run_id;
  frame.state = &site->state;
  int32_t status = hl_custom_call_run(context, site->call, &frame);
  return status == HL_OK ? HL_OK : explain(context, site, status);
}

// Runs a stage with buffers at the addresses that `address(k, place)` gives.
template <typename Address>
int32_t run_at(hl_context* context, hl_call_site* site, int64_t stage, Address address) {
  int64_t count = site->operand_count + site->result_count;
  hl_buffer few[kFew];
  hl_buffer* buffers = few;
  if (count > kFew) {
    buffers = static_cast<hl_buffer*>(hl_alloc(context, count * sizeof(hl_buffer)));
    if (buffers == nullptr) return context->status;
  }
  for (int64_t k = 0; k < count; ++k) {
    const hl_call_buffer& b =
        k < site->operand_count ? site->operands[k] : site->results[k - site->operand_count];
    buffers[k] = {b.dtype, b.rank, b.dims, address(k, b)};
  }
  int32_t status = run(context, site, stage, buffers, buffers + site->operand_count);
  if (buffers != few) hl_free(context, buffers);
  return status;
}

}  // namespace

HL_API int32_t hl_call_sites_instantiate(hl_context* context, hl_call_site* sites, int64_t count) {
  for (int64_t k = 0; k < count; ++k) {
    // There are no buffers yet: handlers see their types and sizes at most.
    int32_t status = run_at(context, sites + k, HL_STAGE_INSTANTIATE,
                            [](int64_t, const hl_call_buffer&) -> void* { return nullptr; });
    if (status != HL_OK) return status;
  }
  return HL_OK;
}

HL_API int32_t hl_call_sites_begin(hl_context* context, void** buffers) {
  hloom::Context* inner = hloom::of(context);
  inner->run_id = runs.fetch_add(1, std::memory_order_relaxed) + 1;
  for (int64_t stage : {HL_STAGE_PREPARE, HL_STAGE_INITIALIZE}) {
    for (int64_t k = 0; k < inner->call_site_count; ++k) {
      int32_t status = run_at(
          context, inner->call_sites + k, stage, [&](int64_t, const hl_call_buffer& b) -> void* {
            return b.allocation < 0 ? nullptr
                                    : static_cast<char*>(buffers[b.allocation]) + b.offset;
          });
      if (status != HL_OK) return status;
    }
  }
  return HL_OK;
}

HL_API int32_t hl_call_site_run(hl_context* context, int64_t index, void** pointers) {
  hloom::Context* inner = hloom::of(context);
  if (index < 0 || index >= inner->call_site_count)
    return hl_set_error(context, HL_INTERNAL, "custom call %lld of %lld",
                        static_cast<long long>(index),
                        static_cast<long long>(inner->call_site_count));
  hloom::StepSpan step(context, nullptr, inner->call_sites[index].name);
  return run_at(context, inner->call_sites + index, HL_STAGE_EXECUTE,
                [&](int64_t k, const hl_call_buffer&) { return pointers[k]; });
}

HL_API void hl_call_sites_end(hl_call_site* sites, int64_t count) {
  for (int64_t k = 0; k < count; ++k) {
    if (sites[k].state != nullptr && hl_custom_call_uses(sites[k].call, hl_xla_ffi_call))
      hl_xla_ffi_state_free(&sites[k].state);
  }
}

// Which custom calls the programs of this context make; the table must outlive it.
HL_API void hl_context_set_call_sites(hl_context* context, hl_call_site* sites, int64_t count) {
  hloom::of(context)->call_sites = sites;
  hloom::of(context)->call_site_count = count;
}
