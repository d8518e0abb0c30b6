// Buffers: what they are, whether they still are, and where.
#include <string.h>

#include "entries.h"
#include "transfer.h"

PJRT_Buffer::PJRT_Buffer(PJRT_Memory* memory, PJRT_Buffer_Type type, const int64_t* dims,
                         const hloom::pjrt::Layout* layout,
                         hloom::pjrt::Ref<hloom::pjrt::Storage> storage)
    : storage(std::move(storage)),
      device(hloom::pjrt::of(memory)->device),
      memory(memory),
      type(type),
      rank(static_cast<int64_t>(layout->minor_to_major.size())),
      layout(layout) {
  int64_t* own = rank <= kSmallRank ? small : new int64_t[rank];
  for (int64_t d = 0; d < rank; ++d) own[d] = dims[d];
  this->dims = own;
}

PJRT_Buffer::~PJRT_Buffer() {
  if (dims != small) delete[] dims;
}

namespace hloom::pjrt {

Ref<Storage> held_storage(PJRT_Buffer* buffer) {
  std::lock_guard<Spin> guard(buffer->lock);
  return buffer->storage;
}

Ref<Storage> taken_storage(PJRT_Buffer* buffer) {
  std::lock_guard<Spin> guard(buffer->lock);
  return std::move(buffer->storage);
}

PJRT_Error* Buffer_Destroy(PJRT_Buffer_Destroy_Args* a) {
  delete a->buffer;
  return nullptr;
}

PJRT_Error* Buffer_Delete(PJRT_Buffer_Delete_Args* a) {
  taken_storage(a->buffer);
  return nullptr;
}

PJRT_Error* Buffer_IsDeleted(PJRT_Buffer_IsDeleted_Args* a) {
  std::lock_guard<Spin> guard(a->buffer->lock);
  a->is_deleted = a->buffer->storage == nullptr;
  return nullptr;
}

HL_ANSWERS(Buffer_ElementType, a->type = a->buffer->type)
HL_ANSWERS(Buffer_Dimensions, a->dims = a->buffer->dims; a->num_dims = a->buffer->rank)
HL_ANSWERS(Buffer_UnpaddedDimensions, a->unpadded_dims = a->buffer->dims;
           a->num_dims = a->buffer->rank)
HL_ANSWERS(Buffer_DynamicDimensionIndices, a->dynamic_dim_indices = nullptr;
           a->num_dynamic_dims = 0)

PJRT_Error* Buffer_GetMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args* a) {
  memset(&a->layout, 0, sizeof(a->layout));
  a->layout.struct_size = sizeof(a->layout);
  a->layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  a->layout.tiled.struct_size = sizeof(a->layout.tiled);
  a->layout.tiled.minor_to_major = a->buffer->layout->minor_to_major.data();
  a->layout.tiled.minor_to_major_size = a->buffer->rank;
  return nullptr;
}

HL_ANSWERS(Buffer_OnDeviceSizeInBytes,
           a->on_device_size_in_bytes = bytes_of(a->buffer->type, a->buffer->dims, a->buffer->rank))
HL_ANSWERS(Buffer_Device, a->device = a->buffer->device)
HL_ANSWERS(Buffer_Memory, a->memory = a->buffer->memory)
HL_ANSWERS(Buffer_IsOnCpu, a->is_on_cpu = true)

PJRT_Error* Buffer_ReadyEvent(PJRT_Buffer_ReadyEvent_Args* a) {
  Ref<Storage> storage = held_storage(a->buffer);
  if (storage == nullptr) return deleted();
  a->event = Ref(storage->ready).passed_on();
  return nullptr;
}

// The address of the elements; waits until they are there.
static PJRT_Error* address(PJRT_Buffer* buffer, void** found) {
  Ref<Storage> storage = held_storage(buffer);
  if (storage == nullptr) return deleted();
  wait(storage->ready.get());
  *found = storage->data;
  return error_of(storage->ready.get());
}

PJRT_Error* Buffer_UnsafePointer(PJRT_Buffer_UnsafePointer_Args* a) {
  void* data = nullptr;
  PJRT_Error* error = address(a->buffer, &data);
  a->buffer_pointer = reinterpret_cast<uintptr_t>(data);
  return error;
}

PJRT_Error* Buffer_OpaqueDeviceMemoryDataPointer(
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args* a) {
  return address(a->buffer, &a->device_memory_ptr);
}

PJRT_Error* Buffer_IncreaseExternalReferenceCount(
    PJRT_Buffer_IncreaseExternalReferenceCount_Args* a) {
  std::lock_guard<Spin> guard(a->buffer->lock);
  if (a->buffer->external == nullptr) {
    if (a->buffer->storage == nullptr) return deleted();
    a->buffer->external = a->buffer->storage;
  }
  ++a->buffer->external_count;
  return nullptr;
}

PJRT_Error* Buffer_DecreaseExternalReferenceCount(
    PJRT_Buffer_DecreaseExternalReferenceCount_Args* a) {
  Ref<Storage> gone;  // let go of when the lock is open
  {
    std::lock_guard<Spin> guard(a->buffer->lock);
    if (a->buffer->external_count == 0)
      return failure(PJRT_Error_Code_FAILED_PRECONDITION,
                     "nobody holds this buffer's memory [external-reference]");
    if (--a->buffer->external_count == 0) gone = std::move(a->buffer->external);
  }
  return nullptr;
}

// The same memory under another type and other sizes.
PJRT_Error* Buffer_Bitcast(PJRT_Buffer_Bitcast_Args* a) {
  int64_t rank = static_cast<int64_t>(a->num_dims);
  const Layout* layout = nullptr;
  if (PJRT_Error* error = checked(a->element_type, a->dims, a->num_dims, a->device_layout, &layout))
    return error;
  int64_t wanted = bytes_of(a->element_type, a->dims, rank);
  int64_t there = bytes_of(a->buffer->type, a->buffer->dims, a->buffer->rank);
  if (wanted != there)
    return failuref(PJRT_Error_Code_INVALID_ARGUMENT,
                    "a buffer of %lld bytes cannot be seen as one of %lld [bitcast]",
                    static_cast<long long>(there), static_cast<long long>(wanted));
  Ref<Storage> storage = held_storage(a->buffer);
  if (storage == nullptr) return deleted();
  a->out_buffer =
      new PJRT_Buffer(a->buffer->memory, a->element_type, a->dims, layout, std::move(storage));
  return nullptr;
}

}  // namespace hloom::pjrt
