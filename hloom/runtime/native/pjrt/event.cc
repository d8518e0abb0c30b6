// Errors, events, and the memory of arrays.
#include <stdarg.h>
#include <stdio.h>

#include "entries.h"

namespace hloom::pjrt {
namespace {

Failure* of(PJRT_Error* error) { return static_cast<Failure*>(error); }
const Failure* of(const PJRT_Error* error) { return static_cast<const Failure*>(error); }

const PJRT_Error_FunctionTable kErrorFunctions = {
    sizeof(PJRT_Error_FunctionTable),
    sizeof(Failure),
    nullptr,
    [](PJRT_Error* error) { delete of(error); },
    [](const PJRT_Error* error, const char** text, size_t* size) {
      *text = of(error)->message.data();
      *size = of(error)->message.size();
    },
    [](const PJRT_Error* error) { return static_cast<PJRT_Error_Code>(of(error)->code); },
    [](const PJRT_Error*, PJRT_Error_PayloadVisitor, void*) {},
};

}  // namespace

// Bytes in the sequence of UTF-8 that begins at `at`; 0 where there is none.
static size_t sequence_bytes(const std::string& text, size_t at) {
  auto byte = [&](size_t k) { return k < text.size() ? static_cast<uint8_t>(text[k]) : 0; };
  uint8_t first = byte(at);
  if (first < 0x80) return 1;
  size_t size = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  for (size_t k = 1; k < size; ++k)
    if ((byte(at + k) & 0xC0) != 0x80) return 0;
  bool too_long = (first == 0xE0 && byte(at + 1) < 0xA0) || (first == 0xF0 && byte(at + 1) < 0x90);
  bool no_character =
      (first == 0xED && byte(at + 1) > 0x9F) || (first == 0xF4 && byte(at + 1) > 0x8F);
  return too_long || no_character ? 0 : size;
}

// Messages hold names out of files, and may be cut: Python reads nothing but UTF-8.
static std::string as_utf8(std::string text) {
  for (size_t at = 0; at < text.size();) {
    size_t size = sequence_bytes(text, at);
    if (size == 0) text[at] = '?';
    at += size == 0 ? 1 : size;
  }
  return text;
}

PJRT_Error* failure(int code, const std::string& message) {
  auto* made = new Failure;
  made->vtable = &kErrorFunctions;
  made->code = code == 0 ? PJRT_Error_Code_UNKNOWN : code;
  made->message = as_utf8(message);
  return made;
}

PJRT_Error* failuref(int code, const char* format, ...) {
  char text[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof(text), format, list);
  va_end(list);
  return failure(code, text);
}

void Error_Destroy(PJRT_Error_Destroy_Args* a) { delete of(a->error); }

void Error_Message(PJRT_Error_Message_Args* a) {
  a->message = of(a->error)->message.c_str();
  a->message_size = of(a->error)->message.size();
}

PJRT_Error* Error_GetCode(PJRT_Error_GetCode_Args* a) {
  a->code = static_cast<PJRT_Error_Code>(of(a->error)->code);
  return nullptr;
}

PJRT_Error* Error_ForEachPayload(PJRT_Error_ForEachPayload_Args*) { return nullptr; }

// -- events

PJRT_Event* done_event() {
  static PJRT_Event* event = [] {
    auto* made = new PJRT_Event;
    made->state = PJRT_Event::kDone;
    return made;
  }();
  return event;
}

Ref<PJRT_Event> failed_event(int code, const std::string& message) {
  Ref<PJRT_Event> made(new PJRT_Event);
  made->code = code == 0 ? PJRT_Error_Code_UNKNOWN : code;
  made->message = message;
  made->state.store(PJRT_Event::kFailed, std::memory_order_release);
  return made;
}

PJRT_Event* retained(PJRT_Event* event) {
  if (event != done_event()) event->references.fetch_add(1, std::memory_order_relaxed);
  return event;
}

void release(PJRT_Event* event) {
  if (event == nullptr || event == done_event()) return;
  if (event->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete event;
}

void finish(PJRT_Event* event, int code, const std::string& message) {
  std::vector<Waiter> waiters;
  {
    std::lock_guard<std::mutex> guard(event->mutex);
    if (is_finished(event)) return;
    event->code = code;
    event->message = message;
    event->state.store(code == 0 ? PJRT_Event::kDone : PJRT_Event::kFailed,
                       std::memory_order_release);
    waiters.swap(event->waiters);
    event->changed.notify_all();
  }
  for (Waiter& waiter : waiters) waiter(code, message);
}

void wait(PJRT_Event* event) {
  if (is_finished(event)) return;
  std::unique_lock<std::mutex> lock(event->mutex);
  event->changed.wait(lock, [&] { return is_finished(event); });
}

void when_finished(PJRT_Event* event, Waiter waiter) {
  if (!is_finished(event)) {
    std::lock_guard<std::mutex> guard(event->mutex);
    if (!is_finished(event)) {
      event->waiters.push_back(std::move(waiter));
      return;
    }
  }
  waiter(event->code, event->message);
}

PJRT_Error* error_of(PJRT_Event* event) {
  if (event->state.load(std::memory_order_acquire) != PJRT_Event::kFailed) return nullptr;
  return failure(event->code, event->message);
}

PJRT_Error* Event_Destroy(PJRT_Event_Destroy_Args* a) {
  release(a->event);
  return nullptr;
}

PJRT_Error* Event_IsReady(PJRT_Event_IsReady_Args* a) {
  a->is_ready = is_finished(a->event);
  return nullptr;
}

PJRT_Error* Event_Error(PJRT_Event_Error_Args* a) { return error_of(a->event); }

PJRT_Error* Event_Await(PJRT_Event_Await_Args* a) {
  wait(a->event);
  return error_of(a->event);
}

PJRT_Error* Event_OnReady(PJRT_Event_OnReady_Args* a) {
  if (a->event->state.load(std::memory_order_acquire) == PJRT_Event::kDone) {
    a->callback(nullptr, a->user_arg);
    return nullptr;
  }
  when_finished(a->event, [callback = a->callback, argument = a->user_arg](
                              int code, const std::string& message) {
    callback(code == 0 ? nullptr : failure(code, message), argument);
  });
  return nullptr;
}

PJRT_Error* Event_Create(PJRT_Event_Create_Args* a) {
  a->event = new PJRT_Event;
  return nullptr;
}

PJRT_Error* Event_Set(PJRT_Event_Set_Args* a) {
  if (is_finished(a->event))
    return failure(PJRT_Error_Code_FAILED_PRECONDITION, "the event is set already [event]");
  finish(a->event, a->error_code,
         std::string(a->error_message == nullptr ? "" : a->error_message, a->error_message_size));
  return nullptr;
}

// -- storage

Ref<Storage> new_storage(int64_t size_bytes) {
  void* block = hl_arena_alloc(nullptr, size_bytes);
  if (block == nullptr) return nullptr;
  Ref<Storage> storage(new Storage);
  storage->owner = Owner::kArena;
  storage->data = storage->base = block;
  storage->size = size_bytes;
  return storage;
}

Storage* retained(Storage* storage) {
  storage->references.fetch_add(1, std::memory_order_relaxed);
  return storage;
}

void release(Storage* storage) {
  if (storage == nullptr) return;
  // Where there is no other holder, nobody can become one; an atomic step costs more than a look.
  if (storage->references.load(std::memory_order_acquire) != 1 &&
      storage->references.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return;
  switch (storage->owner) {
    case Owner::kArena:
      hl_arena_free(nullptr, storage->base);
      break;
    case Owner::kHost:
      finish(storage->host_done.get());
      break;
    case Owner::kForeign:
      if (storage->deleter != nullptr) storage->deleter(storage->data, storage->deleter_argument);
      break;
    case Owner::kAlias:
    case Owner::kNobody:
      break;
  }
  delete storage;
}

}  // namespace hloom::pjrt
