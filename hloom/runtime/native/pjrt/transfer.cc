// Arrays in and out: from the host, to the host, to another memory.
#include <string.h>

#include "../packing.h"
#include "entries.h"
#include "profiler.h"
#include "transfer.h"

namespace hloom::pjrt {

PJRT_Error* no_memory(int64_t bytes) {
  return failuref(PJRT_Error_Code_RESOURCE_EXHAUSTED,
                  "no memory for a buffer of %lld bytes [out-of-memory]",
                  static_cast<long long>(bytes));
}

PJRT_Error* deleted() {
  return failure(PJRT_Error_Code_INVALID_ARGUMENT,
                 "Buffer has been deleted or donated [deleted-buffer]");
}

PJRT_Error* checked(PJRT_Buffer_Type type, const int64_t* dims, size_t rank,
                    const PJRT_Buffer_MemoryLayout* given, const Layout** layout) {
  if (rank > kMostRank)
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                    "an array of %zu dimensions; %lld can be [rank]", rank,
                    static_cast<long long>(kMostRank));
  if (!is_type(type))
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT, "no element type has number %d [dtype]",
                    static_cast<int>(type));
  if (!has_size(type, dims, static_cast<int64_t>(rank)))
    return failure(PJRT_Error_Code_INVALID_ARGUMENT,
                   "an array with a dimension below 0, or of more bytes than 2^63 [dimensions]");
  return read_layout(given, dims, static_cast<int64_t>(rank), element_bytes(type), layout);
}

// Copies bytes when the source is there; `to` is finished then.
void copy_when_ready(Ref<Storage> from, char* to, int64_t offset, int64_t size,
                     const Ref<PJRT_Event>& copied) {
  Ref<PJRT_Event> ready = from->ready;  // of what is moved into the waiter
  when_finished(ready.get(), [=, from = std::move(from)](int code, const std::string& message) {
    Span span("BufferToHost", size);
    if (code == 0 && size > 0) memcpy(to, static_cast<char*>(from->data) + offset, size);
    finish(copied.get(), code, message);
  });
}

Unpacked::Unpacked(PJRT_Buffer_Type type, const int64_t* dims, int64_t rank, char* data,
                   bool is_read)
    : data(data), packed_(data), bits_(packed_bits(type)) {
  if (bits_ == 0) return;
  apart_.resize(host_bytes_of(type, dims, rank));
  this->data = apart_.data();
  if (is_read) unpack_elements(this->data, data, static_cast<int64_t>(apart_.size()), bits_);
}

void Unpacked::put_back() {
  if (bits_ != 0) pack_elements(packed_, data, static_cast<int64_t>(apart_.size()), bits_);
}

namespace {

// The elements of a packed array, a byte each, when they are there.
void unpack_when_ready(Ref<Storage> from, char* to, int64_t count, int bits,
                       const Ref<PJRT_Event>& copied) {
  Ref<PJRT_Event> ready = from->ready;
  when_finished(ready.get(), [=, from = std::move(from)](int code, const std::string& message) {
    Span span("BufferToHost", count);
    if (code == 0) unpack_elements(to, static_cast<char*>(from->data), count, bits);
    finish(copied.get(), code, message);
  });
}

PJRT_Memory* memory_of(PJRT_Memory* memory, PJRT_Device* device, PJRT_Client* client) {
  if (memory != nullptr) return memory;
  return (device != nullptr ? device : client->addressable[0])->listed[0];
}

bool is_aligned(const void* data, uintptr_t alignment) {
  return reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

}  // namespace

Ref<Storage> relaid(const Ref<Storage>& from, PJRT_Buffer_Type type, const int64_t* dims,
                    const Layout* before, const Layout* after) {
  int64_t rank = static_cast<int64_t>(before->minor_to_major.size()), item = element_bytes(type);
  Ref<Storage> to = new_storage(from->size);
  if (to == nullptr) return nullptr;
  std::vector<int64_t> sizes(dims, dims + rank);
  std::vector<int64_t> old = strides_of(before, dims, item), own = strides_of(after, dims, item);
  to->ready.reset(new PJRT_Event);
  when_finished(from->ready.get(), [=](int code, const std::string& message) {
    if (code == 0 && to->size > 0) {
      Unpacked source(type, sizes.data(), rank, static_cast<char*>(from->data));
      Unpacked target(type, sizes.data(), rank, static_cast<char*>(to->data), false);
      copy_strided(target.data, own.data(), source.data, old.data(), sizes.data(), rank, item);
      target.put_back();
    }
    finish(to->ready.get(), code, message);
  });
  return to;
}

PJRT_Error* Client_BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args* a) {
  int64_t rank = static_cast<int64_t>(a->num_dims);
  const Layout* layout = nullptr;
  PJRT_Error* error = checked(a->type, a->dims, a->num_dims, a->device_layout, &layout);
  if (error != nullptr) return error;
  if (a->num_byte_strides != 0 && a->num_byte_strides != a->num_dims)
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                    "%zu strides for an array of %zu dimensions [strides]", a->num_byte_strides,
                    a->num_dims);
  PJRT_Memory* memory = memory_of(a->memory, a->device, a->client);
  int64_t item = element_bytes(a->type), size = bytes_of(a->type, a->dims, rank);
  bool dense = a->num_byte_strides == 0 ? layout->is_row_major
                                        : lie_as(layout, a->byte_strides, a->dims, item);
  int bits = packed_bits(a->type);
  Span span("BufferFromHost", size);
  bool may_share =
      bits == 0 && (a->host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableZeroCopy ||
                    a->host_buffer_semantics == PJRT_HostBufferSemantics_kMutableZeroCopy);
  Ref<Storage> storage;
  if (may_share && dense && size > 0 && is_aligned(a->data, kSharedAlignment)) {
    storage.reset(new Storage);
    storage->owner = Owner::kHost;
    storage->data = const_cast<void*>(a->data);
    storage->size = size;
    storage->host_done.reset(new PJRT_Event);
    a->done_with_host_buffer = Ref(storage->host_done).passed_on();
  } else {
    storage = new_storage(size);
    if (storage == nullptr) return no_memory(size);
    auto* data = static_cast<char*>(storage->data);
    if (dense && bits != 0) {
      pack_elements(data, static_cast<const char*>(a->data), host_bytes_of(a->type, a->dims, rank),
                    bits);
    } else if (dense) {
      if (size > 0) memcpy(data, a->data, size);
    } else {
      std::vector<int64_t> own = strides_of(layout, a->dims, item);
      std::vector<int64_t> given = row_major_strides(a->dims, rank, item);
      if (a->num_byte_strides != 0) given.assign(a->byte_strides, a->byte_strides + rank);
      Unpacked target(a->type, a->dims, rank, data, false);
      copy_strided(target.data, own.data(), static_cast<const char*>(a->data), given.data(),
                   a->dims, rank, item);
      target.put_back();
    }
    a->done_with_host_buffer = done_event();
  }
  a->buffer = new PJRT_Buffer(memory, a->type, a->dims, layout, std::move(storage));
  return nullptr;
}

PJRT_Error* Client_CreateViewOfDeviceBuffer(PJRT_Client_CreateViewOfDeviceBuffer_Args* a) {
  int64_t rank = static_cast<int64_t>(a->num_dims);
  const Layout* layout = nullptr;
  PJRT_Error* error = checked(a->element_type, a->dims, a->num_dims, a->layout, &layout);
  if (error != nullptr) return error;
  PJRT_Memory* memory = memory_of(a->memory, a->device, a->client);
  int64_t size = bytes_of(a->element_type, a->dims, rank);
  Ref<Storage> storage;
  if (is_aligned(a->device_buffer_ptr, kArgumentAlignment)) {
    storage.reset(new Storage);
    storage->owner = Owner::kForeign;
    storage->data = a->device_buffer_ptr;
    storage->size = size;
    storage->deleter = a->on_delete_callback;
    storage->deleter_argument = a->on_delete_callback_arg;
  } else {
    storage = new_storage(size);
    if (storage == nullptr) return no_memory(size);
    if (size > 0) memcpy(storage->data, a->device_buffer_ptr, size);
    if (a->on_delete_callback != nullptr)
      a->on_delete_callback(a->device_buffer_ptr, a->on_delete_callback_arg);
  }
  a->buffer = new PJRT_Buffer(memory, a->element_type, a->dims, layout, std::move(storage));
  return nullptr;
}

PJRT_Error* Client_CreateUninitializedBuffer(PJRT_Client_CreateUninitializedBuffer_Args* a) {
  int64_t rank = static_cast<int64_t>(a->shape_num_dims);
  const Layout* layout = nullptr;
  PJRT_Error* error =
      checked(a->shape_element_type, a->shape_dims, a->shape_num_dims, a->shape_layout, &layout);
  if (error != nullptr) return error;
  int64_t size = bytes_of(a->shape_element_type, a->shape_dims, rank);
  Ref<Storage> storage = new_storage(size);
  if (storage == nullptr) return no_memory(size);
  a->buffer = new PJRT_Buffer(memory_of(a->memory, a->device, a->client), a->shape_element_type,
                              a->shape_dims, layout, std::move(storage));
  return nullptr;
}

PJRT_Error* Client_CreateErrorBuffer(PJRT_Client_CreateErrorBuffer_Args* a) {
  int64_t rank = static_cast<int64_t>(a->shape_num_dims);
  const Layout* layout = nullptr;
  PJRT_Error* error =
      checked(a->shape_element_type, a->shape_dims, a->shape_num_dims, a->shape_layout, &layout);
  if (error != nullptr) return error;
  Ref<Storage> storage(new Storage);
  storage->size = bytes_of(a->shape_element_type, a->shape_dims, rank);
  storage->ready =
      failed_event(a->error_code, std::string(a->error_message, a->error_message_size));
  a->buffer = new PJRT_Buffer(memory_of(a->memory, nullptr, a->client), a->shape_element_type,
                              a->shape_dims, layout, std::move(storage));
  return nullptr;
}

// The interpreter's lock is held here, so nothing is waited for.
PJRT_Error* Buffer_ToHostBuffer(PJRT_Buffer_ToHostBuffer_Args* a) {
  PJRT_Buffer* buffer = a->src;
  int64_t item = element_bytes(buffer->type);
  int64_t size = host_bytes_of(buffer->type, buffer->dims, buffer->rank);
  if (a->dst == nullptr) {
    a->dst_size = size;
    a->event = nullptr;
    return nullptr;
  }
  if (static_cast<int64_t>(a->dst_size) < size)
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                    "an array of %lld bytes does not fit into %zu [host-buffer]",
                    static_cast<long long>(size), a->dst_size);
  const Layout* wanted = buffer->layout;
  if (a->host_layout != nullptr) {
    PJRT_Error* error = read_layout(a->host_layout, buffer->dims, buffer->rank, item, &wanted);
    if (error != nullptr) return error;
  }
  Ref<Storage> storage = held_storage(buffer);
  if (storage == nullptr) return deleted();
  if (wanted->bare != buffer->layout->bare) {
    storage = relaid(storage, buffer->type, buffer->dims, buffer->layout, wanted);
    if (storage == nullptr) return no_memory(size);
  }
  Ref<PJRT_Event> copied(new PJRT_Event);
  auto* to = static_cast<char*>(a->dst);
  if (int bits = packed_bits(buffer->type); bits != 0)
    unpack_when_ready(std::move(storage), to, size, bits, copied);
  else copy_when_ready(std::move(storage), to, 0, size, copied);
  a->event = copied.passed_on();
  return nullptr;
}

PJRT_Error* hold_bytes(PJRT_Buffer* buffer, int64_t offset, int64_t count, Ref<Storage>* held) {
  int64_t size = bytes_of(buffer->type, buffer->dims, buffer->rank);
  if (offset < 0 || count < 0 || count > size - offset)
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                    "bytes %lld to %lld of a buffer of %lld [raw-copy]",
                    static_cast<long long>(offset), static_cast<long long>(offset + count),
                    static_cast<long long>(size));
  *held = held_storage(buffer);
  return *held == nullptr ? deleted() : nullptr;
}

PJRT_Error* Buffer_CopyRawToHost(PJRT_Buffer_CopyRawToHost_Args* a) {
  Ref<Storage> storage;
  if (PJRT_Error* wrong = hold_bytes(a->buffer, a->offset, a->transfer_size, &storage))
    return wrong;
  Ref<PJRT_Event> copied(new PJRT_Event);
  copy_when_ready(std::move(storage), static_cast<char*>(a->dst), a->offset, a->transfer_size,
                  copied);
  a->event = copied.passed_on();
  return nullptr;
}

// A copy in another memory space, or in the same one.
static PJRT_Error* copied_to(PJRT_Buffer* buffer, PJRT_Memory* memory, PJRT_Buffer** made) {
  Ref<Storage> from = held_storage(buffer);
  if (from == nullptr) return deleted();
  Ref<Storage> to = new_storage(from->size);
  if (to == nullptr) return no_memory(from->size);
  if (from->is_ready()) {
    Span span("CopyBuffer", to->size);
    if (to->size > 0) memcpy(to->data, from->data, to->size);
  } else {
    to->ready.reset(new PJRT_Event);
    when_finished(from->ready.get(), [=](int code, const std::string& message) {
      Span span("CopyBuffer", to->size);
      if (code == 0 && to->size > 0) memcpy(to->data, from->data, to->size);
      finish(to->ready.get(), code, message);
    });
  }
  *made = new PJRT_Buffer(memory, buffer->type, buffer->dims, buffer->layout, std::move(to));
  return nullptr;
}

PJRT_Error* Buffer_CopyToDevice(PJRT_Buffer_CopyToDevice_Args* a) {
  return copied_to(a->buffer, a->dst_device->listed[0], &a->dst_buffer);
}

PJRT_Error* Buffer_CopyToMemory(PJRT_Buffer_CopyToMemory_Args* a) {
  return copied_to(a->buffer, a->dst_memory, &a->dst_buffer);
}

}  // namespace hloom::pjrt
