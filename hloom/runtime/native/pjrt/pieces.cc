// Buffers that are there before their bytes: these come piece by piece, later, or from another buffer.
#include <string.h>

#include "entries.h"
#include "profiler.h"
#include "transfer.h"

// Some buffers that the caller fills. Those that it has not filled at the end are errors.
struct PJRT_AsyncHostToDeviceTransferManager {
  struct Piece {
    PJRT_Buffer_Type type;
    std::vector<int64_t> dims;
    const hloom::pjrt::Layout* layout;
    hloom::pjrt::Ref<hloom::pjrt::Storage> storage;
    bool is_retrieved = false;
  };
  PJRT_Memory* memory;
  std::vector<Piece> pieces;
};

struct PJRT_FulfillAliasBufferCallback {
  hloom::pjrt::Ref<hloom::pjrt::Storage> storage;
};

struct PJRT_AsyncTrackingEvent {
  std::string description;
};

namespace hloom::pjrt {
namespace {

// A storage whose bytes come later.
Ref<Storage> pending(Ref<Storage> storage) {
  storage->ready.reset(new PJRT_Event);
  return storage;
}

void fail(const Ref<Storage>& storage, int code, const std::string& message) {
  finish(storage->ready.get(), code == 0 ? PJRT_Error_Code_UNKNOWN : code, message);
}

std::string text(const char* begin, size_t size) {
  return begin == nullptr ? std::string() : std::string(begin, size);
}

// Makes a pending storage the same memory as another one, which it holds, when that is there.
void become(const Ref<Storage>& storage, const Ref<Storage>& other) {
  storage->owner = Owner::kAlias;
  storage->other = other;
  when_finished(other->ready.get(), [storage](int code, const std::string& message) {
    storage->data = storage->other->data;
    finish(storage->ready.get(), code, message);
  });
}

PJRT_Error* no_piece(PJRT_AsyncHostToDeviceTransferManager* manager, int64_t index) {
  if (index >= 0 && index < static_cast<int64_t>(manager->pieces.size())) return nullptr;
  return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                  "no buffer %lld of this transfer: there are %zu [transfer]",
                  static_cast<long long>(index), manager->pieces.size());
}

// The piece that bytes may be written to, or an error.
PJRT_Error* open_piece(PJRT_AsyncHostToDeviceTransferManager* manager, int64_t index,
                       PJRT_AsyncHostToDeviceTransferManager::Piece** piece) {
  if (PJRT_Error* error = no_piece(manager, index)) return error;
  *piece = &manager->pieces[index];
  if (!is_finished((*piece)->storage->ready.get())) return nullptr;
  return failuref(PJRT_Error_Code_FAILED_PRECONDITION,
                  "buffer %lld of this transfer has its last bytes already [transfer]",
                  static_cast<long long>(index));
}

}  // namespace

PJRT_Error* Client_CreateBuffersForAsyncHostToDevice(
    PJRT_Client_CreateBuffersForAsyncHostToDevice_Args* a) {
  auto made = std::make_unique<PJRT_AsyncHostToDeviceTransferManager>();
  made->memory = a->memory != nullptr ? a->memory : a->client->addressable[0]->listed[0];
  for (size_t k = 0; k < a->num_shape_specs; ++k) {
    const PJRT_ShapeSpec& spec = a->shape_specs[k];
    const Layout* layout = nullptr;
    if (PJRT_Error* error =
            checked(spec.element_type, spec.dims, spec.num_dims,
                    k < a->num_device_layouts ? a->device_layouts[k] : nullptr, &layout))
      return error;
    int64_t rank = static_cast<int64_t>(spec.num_dims);
    int64_t size = bytes_of(spec.element_type, spec.dims, rank);
    Ref<Storage> storage = new_storage(size);
    if (storage == nullptr) return no_memory(size);
    std::vector<int64_t> dims(spec.dims, spec.dims + rank);
    made->pieces.push_back(
        {spec.element_type, std::move(dims), layout, pending(std::move(storage))});
  }
  a->transfer_manager = made.release();
  return nullptr;
}

PJRT_Error* AsyncHostToDeviceTransferManager_Destroy(
    PJRT_AsyncHostToDeviceTransferManager_Destroy_Args* a) {
  for (auto& piece : a->transfer_manager->pieces)
    fail(piece.storage, PJRT_Error_Code_CANCELLED,
         "the transfer of this buffer ended before all bytes were there [transfer]");
  delete a->transfer_manager;
  return nullptr;
}

PJRT_Error* AsyncHostToDeviceTransferManager_TransferData(
    PJRT_AsyncHostToDeviceTransferManager_TransferData_Args* a) {
  PJRT_AsyncHostToDeviceTransferManager::Piece* piece = nullptr;
  if (PJRT_Error* error = open_piece(a->transfer_manager, a->buffer_index, &piece)) return error;
  Storage* storage = piece->storage.get();
  if (a->offset < 0 || a->transfer_size < 0 || a->transfer_size > storage->size - a->offset)
    return failuref(
        PJRT_Error_Code_INVALID_ARGUMENT, "bytes %lld to %lld of a buffer of %lld [transfer]",
        static_cast<long long>(a->offset), static_cast<long long>(a->offset + a->transfer_size),
        static_cast<long long>(storage->size));
  Span span("BufferFromHost", a->transfer_size);
  if (a->transfer_size > 0)
    memcpy(static_cast<char*>(storage->data) + a->offset, a->data, a->transfer_size);
  if (a->is_last_transfer) finish(storage->ready.get());
  a->done_with_h2d_transfer = done_event();
  return nullptr;
}

PJRT_Error* AsyncHostToDeviceTransferManager_TransferLiteral(
    PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args* a) {
  PJRT_AsyncHostToDeviceTransferManager::Piece* piece = nullptr;
  if (PJRT_Error* error = open_piece(a->transfer_manager, a->buffer_index, &piece)) return error;
  std::vector<int64_t> dims(a->shape_dims, a->shape_dims + a->shape_num_dims);
  if (a->shape_element_type != piece->type || dims != piece->dims)
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                    "buffer %d of this transfer has another type or other sizes than the literal "
                    "[transfer]",
                    a->buffer_index);
  const Layout* layout = nullptr;
  PJRT_Error* error =
      checked(a->shape_element_type, a->shape_dims, a->shape_num_dims, a->shape_layout, &layout);
  if (error != nullptr) return error;
  Storage* storage = piece->storage.get();
  Span span("BufferFromHost", storage->size);
  int64_t item = element_bytes(piece->type);
  std::vector<int64_t> to = strides_of(piece->layout, dims.data(), item);
  std::vector<int64_t> from = strides_of(layout, dims.data(), item);
  int64_t rank = static_cast<int64_t>(dims.size());
  Unpacked target(piece->type, dims.data(), rank, static_cast<char*>(storage->data), false);
  copy_strided(target.data, to.data(), static_cast<const char*>(a->data), from.data(), dims.data(),
               rank, item);
  target.put_back();
  finish(storage->ready.get());
  a->done_with_h2d_transfer = done_event();
  return nullptr;
}

PJRT_Error* AsyncHostToDeviceTransferManager_RetrieveBuffer(
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args* a) {
  if (PJRT_Error* error = no_piece(a->transfer_manager, a->buffer_index)) return error;
  auto& piece = a->transfer_manager->pieces[a->buffer_index];
  if (piece.is_retrieved)
    return failuref(PJRT_Error_Code_FAILED_PRECONDITION,
                    "buffer %d of this transfer was given out before [transfer]", a->buffer_index);
  piece.is_retrieved = true;
  a->buffer_out = new PJRT_Buffer(a->transfer_manager->memory, piece.type, piece.dims.data(),
                                  piece.layout, piece.storage);
  return nullptr;
}

HL_ANSWERS(AsyncHostToDeviceTransferManager_Device,
           a->device_out = of(a->transfer_manager->memory)->device)
HL_ANSWERS(AsyncHostToDeviceTransferManager_BufferCount,
           a->buffer_count = a->transfer_manager->pieces.size())
// Names of what is transferred, for those who look on; nothing of it changes the bytes.
HL_ANSWERS(AsyncHostToDeviceTransferManager_AddMetadata, )

PJRT_Error* AsyncHostToDeviceTransferManager_BufferSize(
    PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args* a) {
  if (PJRT_Error* error = no_piece(a->transfer_manager, a->buffer_index)) return error;
  a->buffer_size = a->transfer_manager->pieces[a->buffer_index].storage->size;
  return nullptr;
}

PJRT_Error* AsyncHostToDeviceTransferManager_SetBufferError(
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args* a) {
  PJRT_AsyncHostToDeviceTransferManager::Piece* piece = nullptr;
  if (PJRT_Error* error = open_piece(a->transfer_manager, a->buffer_index, &piece)) return error;
  fail(piece->storage, a->error_code, text(a->error_message, a->error_message_size));
  return nullptr;
}

// -- buffers that stand for others

PJRT_Error* Client_CreateAliasBuffer(PJRT_Client_CreateAliasBuffer_Args* a) {
  const Layout* layout = nullptr;
  PJRT_Error* error =
      checked(a->shape_element_type, a->shape_dims, a->shape_num_dims, a->shape_layout, &layout);
  if (error != nullptr) return error;
  Ref<Storage> storage = pending(Ref(new Storage));
  storage->size =
      bytes_of(a->shape_element_type, a->shape_dims, static_cast<int64_t>(a->shape_num_dims));
  PJRT_Memory* memory = a->memory != nullptr ? a->memory : a->client->addressable[0]->listed[0];
  a->alias_buffer = new PJRT_Buffer(memory, a->shape_element_type, a->shape_dims, layout, storage);
  a->fulfill_alias_buffer_cb = new PJRT_FulfillAliasBufferCallback{storage};
  return nullptr;
}

// Once: the callback is gone afterwards.
PJRT_Error* Client_FulfillAliasBuffer(PJRT_Client_FulfillAliasBuffer_Args* a) {
  const Ref<Storage>& storage = a->fulfill_alias_buffer_cb->storage;
  if (a->status_code != 0) {
    fail(storage, a->status_code, text(a->error_message, a->error_message_size));
  } else {
    Ref<Storage> other = held_storage(a->buffer);
    if (other == nullptr) return deleted();
    if (other->size != storage->size)
      return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                      "an alias of %lld bytes cannot become a buffer of %lld [alias]",
                      static_cast<long long>(storage->size), static_cast<long long>(other->size));
    become(storage, other);
  }
  delete a->fulfill_alias_buffer_cb;
  return nullptr;
}

namespace {

// What callbacks know: the storage they are about, and what they finish.
struct Dependency {
  Ref<Storage> storage, other;
};

struct RawCopy {
  Ref<Storage> storage;
  int64_t offset, size;
  Ref<PJRT_Event> done;
};

void dependency_ready(PJRT_Buffer_DonateWithControlDependency_Callback_Args* a) {
  std::unique_ptr<Dependency> given(static_cast<Dependency*>(a->callback_data));
  if (a->error_code != 0)
    fail(given->storage, a->error_code, text(a->error_message, a->error_message_size));
  else become(given->storage, given->other);
}

void destination_known(PJRT_Buffer_CopyRawToHostFuture_Callback_Args* a) {
  std::unique_ptr<RawCopy> given(static_cast<RawCopy*>(a->callback_data));
  if (a->error_code != 0)
    finish(given->done.get(), a->error_code, text(a->error_message, a->error_message_size));
  else
    copy_when_ready(given->storage, static_cast<char*>(a->dst), given->offset, given->size,
                    given->done);
}

}  // namespace

// The buffer's storage under a new name, which may be read when the caller says so.
PJRT_Error* Buffer_DonateWithControlDependency(PJRT_Buffer_DonateWithControlDependency_Args* a) {
  Ref<Storage> other = taken_storage(a->buffer);
  if (other == nullptr) return deleted();
  Ref<Storage> storage = pending(Ref(new Storage));
  storage->size = other->size;
  a->out_buffer = new PJRT_Buffer(a->buffer->memory, a->buffer->type, a->buffer->dims,
                                  a->buffer->layout, storage);
  a->callback_data = new Dependency{std::move(storage), std::move(other)};
  a->dependency_ready_callback = dependency_ready;
  return nullptr;
}

PJRT_Error* Buffer_CopyRawToHostFuture(PJRT_Buffer_CopyRawToHostFuture_Args* a) {
  Ref<Storage> storage;
  if (PJRT_Error* wrong = hold_bytes(a->buffer, a->offset, a->transfer_size, &storage))
    return wrong;
  Ref<PJRT_Event> done(new PJRT_Event);
  a->callback_data = new RawCopy{std::move(storage), a->offset, a->transfer_size, done};
  a->event = done.passed_on();
  a->future_ready_callback = destination_known;
  return nullptr;
}

// -- what programs wait for, by name

HL_ANSWERS(Device_CreateAsyncTrackingEvent,
           a->event = new PJRT_AsyncTrackingEvent{text(a->description, a->description_size)})
HL_ANSWERS(AsyncTrackingEvent_Destroy, delete a->event)

}  // namespace hloom::pjrt
