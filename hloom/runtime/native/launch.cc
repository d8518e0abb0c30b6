// One run with threads, user data and a device of its own: what a caller says of a run, not of a program.
#include "launch.h"

#include "host.h"

namespace hloom {

int32_t execute(const Launch& launch, hl_context* context, hl_main_function fn, void** buffers) {
  Context* inner = of(context);
  hl_pool* pool = context->pool;
  int32_t threads = context->threads;
  if (launch.pool != nullptr) {
    context->pool = launch.pool;
    context->threads = pool_threads(launch.pool);
  }
  context->device = static_cast<int32_t>(launch.local_device);
  inner->user_data = launch.user_data.count > 0 ? &launch.user_data : nullptr;
  int32_t status = launch.join == nullptr ? hl_execute(context, fn, buffers)
                                          : launch.join(launch, context, fn, buffers);
  inner->user_data = nullptr;
  context->pool = pool;
  context->threads = threads;
  return status;
}

}  // namespace hloom
