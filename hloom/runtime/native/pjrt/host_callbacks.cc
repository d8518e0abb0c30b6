// Host callbacks. A send is one chunk, a copy that the callback frees. A receive is a stream to
// which the callback, or another thread of the host later, adds chunks; the program waits until all
// bytes are there.
#include "host_callbacks.h"

#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include "../context.h"
#include "entries.h"

namespace hloom::pjrt {

// Of a stream, shared by the program that waits and the host that writes.
struct Incoming {
  std::atomic<int32_t> references{1};
  std::mutex mutex;
  std::condition_variable changed;
  char* target;  // null: nobody waits any more
  int64_t total, current = 0;
  bool is_closed = false;  // the host has let go of it
};

Incoming* retained(Incoming* incoming) {
  incoming->references.fetch_add(1, std::memory_order_relaxed);
  return incoming;
}

void release(Incoming* incoming) {
  if (incoming->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete incoming;
}

}  // namespace hloom::pjrt

// What a callback is handed, and destroys.
struct PJRT_CopyToDeviceStream {
  hloom::pjrt::Ref<hloom::pjrt::Incoming> incoming;
};

namespace hloom::pjrt {
namespace {

PJRT_Error* callback_error(PJRT_Error_Code code, const char* message, size_t size) {
  return failure(code, std::string(message, size));
}

void free_chunk(void* data, void*) { free(data); }

template <typename Info>
const Info* of_channel(const std::vector<Info>& infos, int64_t channel) {
  for (const Info& each : infos)
    if (each.channel_id == channel) return &each;
  return nullptr;
}

int32_t nobody(hl_context* context, const char* what, int64_t channel) {
  return hl_set_error(context, HL_FAILED_PRECONDITION,
                      "no %s callback was given for channel %lld [host-callback]", what,
                      static_cast<long long>(channel));
}

// Puts an error of the host's into the context, and frees it.
int32_t failed(hl_context* context, PJRT_Error* error, int64_t channel) {
  PJRT_Error_GetCode_Args code{sizeof(code), nullptr, error, PJRT_Error_Code_INTERNAL};
  PJRT_Error_Message_Args text{sizeof(text), nullptr, error, nullptr, 0};
  Error_Message(&text);
  Error_GetCode(&code);
  hl_set_error(context, code.code, "send callback of channel %lld: %.*s [host-callback]",
               static_cast<long long>(channel), static_cast<int>(text.message_size), text.message);
  PJRT_Error_Destroy_Args end{sizeof(end), nullptr, error};
  Error_Destroy(&end);
  return code.code;
}

int32_t send(void* state, hl_context* context, int64_t channel, const char*, const void* data,
             int64_t size) {
  const auto* callbacks = static_cast<const HostCallbacks*>(state);
  const PJRT_SendCallbackInfo* info = of_channel(callbacks->sends, channel);
  if (info == nullptr) return nobody(context, "send", channel);
  void* copy = malloc(size > 0 ? size : 1);
  if (copy == nullptr)
    return hl_set_error(context, HL_RESOURCE_EXHAUSTED,
                        "no memory to send %lld bytes to the host [out-of-memory]",
                        static_cast<long long>(size));
  if (size > 0) memcpy(copy, data, size);
  PJRT_Chunk chunk{copy, static_cast<size_t>(size), free_chunk, nullptr};
  PJRT_Error* (*make_error)(PJRT_Error_Code, const char*, size_t) = callback_error;
  PJRT_Error* error = info->send_callback(&chunk, &make_error, size, true, info->user_arg);
  return error == nullptr ? HL_OK : failed(context, error, channel);
}

int32_t receive(void* state, hl_context* context, int64_t channel, const char*, void* data,
                int64_t size) {
  const auto* callbacks = static_cast<const HostCallbacks*>(state);
  const PJRT_RecvCallbackInfo* info = of_channel(callbacks->receives, channel);
  if (info == nullptr) return nobody(context, "receive", channel);
  Ref<Incoming> incoming(new Incoming);
  incoming->target = static_cast<char*>(data);
  incoming->total = size;
  info->recv_callback(new PJRT_CopyToDeviceStream{Ref<Incoming>::of(incoming.get())},
                      info->user_arg);
  std::unique_lock guard(incoming->mutex);
  while (incoming->current < size && !incoming->is_closed && !is_cancelled(context))
    incoming->changed.wait_for(guard, std::chrono::milliseconds(20));
  incoming->target = nullptr;  // the program goes on, whatever the host still writes
  if (incoming->current == size) return HL_OK;
  if (is_cancelled(context)) return hl_set_error(context, HL_CANCELLED, "cancelled");
  return hl_set_error(context, HL_ABORTED,
                      "the host gave %lld of %lld bytes on channel %lld [host-callback]",
                      static_cast<long long>(incoming->current), static_cast<long long>(size),
                      static_cast<long long>(channel));
}

// Adds a chunk at the end of what is there.
PJRT_Error* add(Incoming& incoming, const PJRT_Chunk& chunk) {
  std::lock_guard guard(incoming.mutex);
  int64_t size = static_cast<int64_t>(chunk.size), left = incoming.total - incoming.current;
  if (size > left)
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                    "a chunk of %lld bytes is added where %lld are missing [host-callback]",
                    static_cast<long long>(size), static_cast<long long>(left));
  if (incoming.target == nullptr)
    return failuref(PJRT_Error_Code_CANCELLED, "the program has ended [host-callback]");
  if (size > 0) memcpy(incoming.target + incoming.current, chunk.data, size);
  incoming.current += size;
  incoming.changed.notify_all();
  return nullptr;
}

}  // namespace

HostCallbacks::HostCallbacks(const PJRT_ExecuteOptions* options, size_t device) {
  if (options->num_send_ops > 0 && options->send_callbacks != nullptr)
    sends.assign(options->send_callbacks[device],
                 options->send_callbacks[device] + options->num_send_ops);
  if (options->num_recv_ops > 0 && options->recv_callbacks != nullptr)
    receives.assign(options->recv_callbacks[device],
                    options->recv_callbacks[device] + options->num_recv_ops);
}

hl_host_transfers HostCallbacks::transfers() const {
  return {const_cast<HostCallbacks*>(this), send, receive};
}

PJRT_Error* CopyToDeviceStream_Destroy(PJRT_CopyToDeviceStream_Destroy_Args* a) {
  if (a->stream == nullptr) return nullptr;
  {
    std::lock_guard guard(a->stream->incoming->mutex);
    a->stream->incoming->is_closed = true;
    a->stream->incoming->changed.notify_all();
  }
  delete a->stream;
  return nullptr;
}

PJRT_Error* CopyToDeviceStream_AddChunk(PJRT_CopyToDeviceStream_AddChunk_Args* a) {
  PJRT_Error* error = add(*a->stream->incoming, *a->chunk);
  // The chunk is ours, whatever becomes of it.
  if (a->chunk->deleter != nullptr) a->chunk->deleter(a->chunk->data, a->chunk->deleter_arg);
  if (error == nullptr) a->transfer_complete = done_event();
  return error;
}

PJRT_Error* CopyToDeviceStream_TotalBytes(PJRT_CopyToDeviceStream_TotalBytes_Args* a) {
  a->total_bytes = a->stream->incoming->total;
  return nullptr;
}

PJRT_Error* CopyToDeviceStream_GranuleSize(PJRT_CopyToDeviceStream_GranuleSize_Args* a) {
  a->granule_size_in_bytes = 1;
  return nullptr;
}

PJRT_Error* CopyToDeviceStream_CurrentBytes(PJRT_CopyToDeviceStream_CurrentBytes_Args* a) {
  std::lock_guard guard(a->stream->incoming->mutex);
  a->current_bytes = a->stream->incoming->current;
  return nullptr;
}

}  // namespace hloom::pjrt
