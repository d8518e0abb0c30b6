// Sends to the host and receives from it, as programs call them.
#include "host_transfers.h"

#include "context.h"
#include "float_mode.h"
#include "loaded_program.h"
#include "steps.h"

namespace hloom {
namespace {

int32_t nobody(hl_context* context, const char* name, const char* what, int64_t channel) {
  return hl_set_error(context, HL_FAILED_PRECONDITION,
                      "%%%s: the host has no handler that %s channel %lld", name, what,
                      static_cast<long long>(channel));
}

}  // namespace
}  // namespace hloom

HL_API int32_t hl_host_send(hl_context* context, const char* name, const char* shape,
                            int64_t channel, const void* data, int64_t size_bytes) {
  hloom::StepSpan step(context, nullptr, "send to the host");
  const hl_host_transfers* host = hloom::of(context)->transfers;
  if (host == nullptr || host->send == nullptr)
    return hloom::nobody(context, name, "takes what is sent on", channel);
  uint64_t mode = hloom::set_float_mode(hloom::kHostFloatMode);
  int32_t status = host->send(host->state, context, channel, shape, data, size_bytes);
  hloom::set_float_mode(mode);
  return status;
}

HL_API int32_t hl_host_receive(hl_context* context, const char* name, const char* shape,
                               int64_t channel, void* data, int64_t size_bytes) {
  hloom::StepSpan step(context, nullptr, "receive from the host");
  const hl_host_transfers* host = hloom::of(context)->transfers;
  if (host == nullptr || host->receive == nullptr)
    return hloom::nobody(context, name, "gives what is received on", channel);
  uint64_t mode = hloom::set_float_mode(hloom::kHostFloatMode);
  int32_t status = host->receive(host->state, context, channel, shape, data, size_bytes);
  hloom::set_float_mode(mode);
  return status;
}

HL_API void hl_program_set_transfers(hl_program* program, const hl_host_transfers* transfers) {
  program->transfers = *transfers;
}
