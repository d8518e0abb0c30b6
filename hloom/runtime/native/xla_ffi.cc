// Our frames as XLA's, the table of functions a handler may call back, and the older custom calls.
#include "xla_ffi.h"

#include <stdlib.h>
#include <string.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "context.h"
#include "packed_buffers.h"

namespace hloom {
namespace ffi {

// It begins with what jaxlib's errors are, an absl::Status: some of jaxlib's own handlers (that of
// buffer_callback) take any error for one of these, empty it and free it.
struct Error {
  uint64_t status;
  int32_t code;
  std::string message;
};

struct Future {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Error* error = nullptr;
};

// The state a handler keeps for its stages (instantiate, prepare, initialize).
struct States {
  void* of[4] = {};
  TypeId type[4] = {};
};

struct Context {
  hl_context* context;
  const hl_call_frame* frame;
};

namespace {

struct Type {
  std::string name;
  void (*deleter)(void*);
};

// By number: those that jaxlib gives are anything, ours are counted.
struct Types {
  std::mutex mutex;
  std::map<int64_t, Type> all;
  int64_t last = 0;
};

Types& types() {
  static Types& found = *new Types;
  return found;
}

// jaxlib's table of functions, which it shows to handlers that are registered with it; null: it has
// been shown none.
const Api* jaxlib_api = nullptr;

// A status that is a code and no message is a number, with the lowest bit set.
uint64_t bare_status(int32_t code) { return uint64_t(code) << 2 | 1; }

Error* created(int32_t code, const char* message) {
  return new Error{bare_status(code), code, message};
}

// An error for handlers, whoever they take it to be of.
Error* failed(int32_t code, const char* message) {
  Error* made = created(code, message);
  if (!jaxlib_api) return made;
  ErrorCreate a{};
  a.struct_size = sizeof(a), a.message = message, a.code = code;
  ErrorDestroy shell{};
  shell.struct_size = sizeof(shell), shell.error = jaxlib_api->error_create(&a);
  std::swap(made->status, *(uint64_t*)shell.error);
  jaxlib_api->error_destroy(&shell);
  return made;
}

void free_error(Error* error) {
  if (!error) return;
  if (jaxlib_api && !(error->status & 1)) {  // with a message, which is jaxlib's to free
    ErrorCreate a{};
    a.struct_size = sizeof(a), a.message = "", a.code = error->code;
    ErrorDestroy shell{};
    shell.struct_size = sizeof(shell), shell.error = jaxlib_api->error_create(&a);
    std::swap(error->status, *(uint64_t*)shell.error);
    jaxlib_api->error_destroy(&shell);
  }
  delete error;
}

Error* error_create(ErrorCreate* a) { return created(a->code, a->message ? a->message : ""); }
void error_get_message(ErrorGetMessage* a) {
  a->message = a->error->message.c_str();
  size_t end = (char*)(&a->code + 1) - (char*)a;
  if (a->struct_size >= end) a->code = a->error->code;
}
void error_destroy(ErrorDestroy* a) { free_error(a->error); }
Error* handler_register(Head*) {
  return failed(HL_UNIMPLEMENTED, "handlers are registered from Python, with hloom.runtime.ffi");
}
Error* stream_get(StreamGet*) {
  return failed(HL_UNIMPLEMENTED, "a CPU has no stream: XLA FFI GPU context is not available");
}

Error* type_register(TypeRegister* a) {
  Types& t = types();
  std::lock_guard<std::mutex> lock(t.mutex);
  std::string name(a->name.data, a->name.size);
  auto* deleter = a->info ? a->info->deleter : nullptr;
  for (auto& [id, type] : t.all)
    if (type.name == name) {
      if (!a->id->id) a->id->id = id;
      if (!type.deleter) type.deleter = deleter;
      return a->id->id == id
                 ? nullptr
                 : failed(HL_INVALID_ARGUMENT, "a type is registered under two numbers");
    }
  if (!a->id->id) {
    do t.last++;
    while (t.all.count(t.last));
    a->id->id = t.last;
  }
  if (!t.all.try_emplace(a->id->id, Type{name, deleter}).second)
    return failed(HL_INVALID_ARGUMENT, "the number of another type");
  return nullptr;
}

Error* context_get(ContextGet* a) {
  const hloom::UserDataList* list = hloom::of(a->context->context)->user_data;
  for (int64_t k = 0; list && k < list->count; k++)
    if (list->entries[k].type_id == a->id->id) {
      a->data = list->entries[k].data;
      return nullptr;
    }
  return failed(HL_NOT_FOUND, "the execution context holds no user data of that type");
}

Error* state_set(State* a) {
  void** slot = a->context->frame->state;
  if (!slot || a->stage < 0 || a->stage > 2)
    return failed(HL_FAILED_PRECONDITION, "this call keeps no state");
  if (!*slot) *slot = new States;
  auto* states = (States*)*slot;
  if (states->of[a->stage])
    return failed(HL_FAILED_PRECONDITION, "the state of this stage is set already");
  states->of[a->stage] = a->state, states->type[a->stage] = *a->id;
  return nullptr;
}

Error* state_get(State* a) {
  void** slot = a->context->frame->state;
  auto* states = slot ? (States*)*slot : nullptr;
  if (!states || a->stage < 0 || a->stage > 2 || !states->of[a->stage])
    return failed(HL_NOT_FOUND, "the state of this stage is not set");
  if (states->type[a->stage].id != a->id->id)
    return failed(HL_INVALID_ARGUMENT, "the state of this stage has another type");
  a->state = states->of[a->stage];
  return nullptr;
}

Error* memory_allocate(MemoryAllocate* a) {
  if (a->alignment > 64) return failed(HL_UNIMPLEMENTED, "memory is aligned to 64 bytes at most");
  a->data = hl_alloc(a->context->context, (int64_t)a->size);
  return a->data ? nullptr : failed(HL_RESOURCE_EXHAUSTED, "no memory");
}

Error* memory_free(MemoryFree* a) {
  hl_free(a->context->context, a->data);
  return nullptr;
}

// Tasks run at once, where they are scheduled: the pool's threads spin for kernels.
Error* schedule(Schedule* a) {
  a->task(a->data);
  return nullptr;
}

Error* num_threads(NumThreads* a) {
  *a->threads = a->context->context->threads;
  return nullptr;
}

Error* future_create(FutureCreate* a) {
  a->future = new Future;
  return nullptr;
}

Error* finish(Future* f, Error* error) {
  std::lock_guard<std::mutex> lock(f->mutex);
  f->done = true, f->error = error;
  f->changed.notify_all();
  return nullptr;
}

Error* future_set_available(FutureSetAvailable* a) { return finish(a->future, nullptr); }
Error* future_set_error(FutureSetError* a) { return finish(a->future, a->error); }

Error* run_id_get(RunIdGet* a) {
  a->run_id = a->context->frame->run_id;
  return nullptr;
}

Error* device_ordinal_get(DeviceOrdinalGet* a) {
  a->ordinal = a->context->context->device;
  return nullptr;
}

// There are none: what they are is agreed upon by a handler and who calls programs through XLA.
Error* extension_find(ExtensionFind* a) {
  a->found = nullptr;
  return nullptr;
}

Error* options_get(OptionsGet* a) {
  static const Attributes none = {sizeof(Attributes), nullptr, 0, nullptr, nullptr, nullptr};
  a->options = &none;
  return nullptr;
}

const Api& api() {
  static const Api table = {sizeof(Api),
                            nullptr,
                            {sizeof(Version), nullptr, 0, 5},
                            nullptr,
                            error_create,
                            error_get_message,
                            error_destroy,
                            handler_register,
                            stream_get,
                            type_register,
                            context_get,
                            state_set,
                            state_get,
                            memory_allocate,
                            memory_free,
                            schedule,
                            num_threads,
                            future_create,
                            future_set_available,
                            future_set_error,
                            run_id_get,
                            device_ordinal_get,
                            extension_find,
                            options_get};
  return table;
}

// Memory of the translated frame: everything lives until the call is over.
struct TranslatedFrame {
  std::vector<Buffer> buffers[2];
  std::vector<void*> pointers[2];
  std::vector<int32_t> types[2];
  struct Dictionary {
    std::vector<int32_t> types;
    std::vector<Span> spans;
    std::vector<Span*> names;
    std::vector<void*> values;
    std::vector<Scalar> scalars;
    std::vector<Array> arrays;
    std::vector<Span> strings;
    Attributes attributes;
  };
  std::vector<std::unique_ptr<Dictionary>> dictionaries;

  List list(int which, int64_t count, const hl_buffer* from) {
    auto& b = buffers[which];
    b.reserve(count);
    for (int64_t i = 0; i < count; i++) {
      b.push_back({sizeof(Buffer), nullptr, (int32_t)from[i].dtype, from[i].data, from[i].rank,
                   (int64_t*)from[i].dims});
      pointers[which].push_back(&b.back());
      types[which].push_back(1);
    }
    return {sizeof(List), nullptr, count, types[which].data(), pointers[which].data()};
  }

  static int by_name(const void* x, const void* y) {
    const auto *a = *(const hl_attribute* const*)x, *b = *(const hl_attribute* const*)y;
    return std::string_view(a->name, (size_t)a->name_size).compare({b->name, (size_t)b->name_size});
  }

  Attributes* dictionary(int64_t count, const hl_attribute* from) {
    dictionaries.push_back(std::make_unique<Dictionary>());
    Dictionary& d = *dictionaries.back();
    d.spans.reserve(count), d.scalars.reserve(count), d.arrays.reserve(count),
        d.strings.reserve(count);
    std::vector<const hl_attribute*> sorted;  // handlers expect attributes in the order of names
    sorted.reserve(count);
    for (int64_t i = 0; i < count; i++) sorted.push_back(from + i);
    if (count > 1) qsort(sorted.data(), sorted.size(), sizeof(void*), by_name);
    for (const hl_attribute* each : sorted) {
      const hl_attribute& a = *each;
      d.types.push_back((int32_t)a.kind);
      d.spans.push_back({a.name, (size_t)a.name_size});
      d.names.push_back(&d.spans.back());
      switch (a.kind) {
        case HL_ATTRIBUTE_ARRAY:
          d.arrays.push_back({(int32_t)a.dtype, (size_t)a.count, (void*)a.data});
          d.values.push_back(&d.arrays.back());
          break;
        case HL_ATTRIBUTE_DICTIONARY:
          d.values.push_back(dictionary(a.count, (const hl_attribute*)a.data));
          break;
        case HL_ATTRIBUTE_SCALAR:
          d.scalars.push_back({(int32_t)a.dtype, (void*)a.data});
          d.values.push_back(&d.scalars.back());
          break;
        default:
          d.strings.push_back({(const char*)a.data, (size_t)a.count});
          d.values.push_back(&d.strings.back());
      }
    }
    d.attributes = {sizeof(Attributes), nullptr,        count,
                    d.types.data(),     d.names.data(), d.values.data()};
    return &d.attributes;
  }
};

// Sizes are told up to the end of the last field that every version has; XLA compares exactly.
constexpr size_t kFrameSize = offsetof(CallFrame, attributes) + sizeof(Attributes);

// Errors of handlers come with XLA's codes, which are ours.
int32_t told(hl_context* ctx, Error* error) {
  if (!error) return HL_OK;
  int32_t code = error->code ? error->code : HL_UNKNOWN;
  hl_set_error(ctx, code, "%s", error->message.c_str());
  free_error(error);
  return code;
}

}  // namespace
}  // namespace ffi
}  // namespace hloom

// An hl_handler whose `user` is a bundle of four XLA_FFI_Handler pointers, by stage.
HL_API int32_t hl_xla_ffi_call(hl_context* ctx, const hl_call_frame* frame) {
  using namespace hloom::ffi;
  auto* bundle = (const Bundle*)frame->user;
  Handler* handler = frame->stage >= 0 && frame->stage < 4 ? bundle->stages[frame->stage] : nullptr;
  if (!handler) return HL_OK;
  hloom::PackedBuffers packed(ctx, frame, bundle->apart != 0);
  frame = packed.frame();
  if (!frame) return HL_RESOURCE_EXHAUSTED;
  TranslatedFrame memory;
  Context context{ctx, frame};
  bool instantiating = frame->stage == HL_STAGE_INSTANTIATE;  // there are no buffers yet
  CallFrame call{kFrameSize,
                 nullptr,
                 &api(),
                 &context,
                 (int32_t)frame->stage,
                 memory.list(0, instantiating ? 0 : frame->operand_count, frame->operands),
                 memory.list(1, instantiating ? 0 : frame->result_count, frame->results),
                 *memory.dictionary(frame->attribute_count, frame->attributes),
                 nullptr};
  Error* error = handler(&call);
  if (Future* future = call.future) {
    std::unique_lock<std::mutex> lock(future->mutex);
    future->changed.wait(lock, [&] { return future->done; });
    if (!error) error = future->error;
    lock.unlock();
    delete future;
  }
  packed.put_back();
  return told(ctx, error);
}

// A handler to register with jaxlib, which asks it what it is and shows it its own table. It is
// never called otherwise.
HL_API void* hl_xla_ffi_listener(void* call) {
  using namespace hloom::ffi;
  auto* frame = (CallFrame*)call;
  if (frame->api && frame->api->struct_size >= offsetof(Api, handler_register))
    jaxlib_api = frame->api;
  for (Extension* e = frame->extension; e; e = e->next)
    if (e->type == 1) {
      Metadata* metadata = ((MetadataExtension*)e)->metadata;
      metadata->version.major = frame->api ? frame->api->version.major : 0;
      metadata->version.minor = frame->api ? frame->api->version.minor : 0;
    }
  return nullptr;
}

// What a handler says of itself: its ABI version and traits. Not 0: it does not answer.
HL_API int32_t hl_xla_ffi_metadata(void* handler, int64_t* major, int64_t* minor, int64_t* traits) {
  using namespace hloom::ffi;
  Metadata metadata{};
  metadata.struct_size = sizeof(Metadata);
  metadata.version.struct_size = sizeof(Version);
  MetadataExtension extension{{sizeof(MetadataExtension), 1, nullptr}, &metadata};
  CallFrame call{};
  call.struct_size = kFrameSize, call.extension = &extension.base, call.api = &api(),
  call.stage = HL_STAGE_EXECUTE;
  call.arguments.struct_size = call.results.struct_size = sizeof(List),
  call.attributes.struct_size = sizeof(Attributes);
  if (Error* error = ((Handler*)handler)(&call)) {
    free_error(error);
    return HL_INVALID_ARGUMENT;
  }
  *major = metadata.version.major, *minor = metadata.version.minor, *traits = metadata.traits;
  return HL_OK;
}

// Makes a type of handlers' states known: `id` (0: one is given) and `info` (how it is freed) are those
// that the handlers were compiled with. Returns a status.
HL_API int32_t hl_xla_ffi_type_register(const char* name, int64_t name_size, void* id,
                                        const void* info) {
  using namespace hloom::ffi;
  TypeRegister arguments{};
  arguments.struct_size = sizeof(TypeRegister);
  arguments.name = {name, (size_t)name_size};
  arguments.id = (TypeId*)id;
  arguments.info = (const TypeInfo*)info;
  Error* error = type_register(&arguments);
  if (!error) return HL_OK;
  int32_t code = error->code;
  free_error(error);
  return code;
}

// Gives back what the stages of a call site keep; `state` is the slot of its frames.
HL_API void hl_xla_ffi_state_free(void** state) {
  using namespace hloom::ffi;
  auto* states = (States*)*state;
  if (!states) return;
  for (int stage = 0; stage < 3; stage++) {
    int64_t id = states->type[stage].id;
    if (!states->of[stage]) continue;
    void (*deleter)(void*) = nullptr;
    {
      std::lock_guard<std::mutex> lock(types().mutex);
      auto found = types().all.find(id);
      if (found != types().all.end()) deleter = found->second.deleter;
    }
    if (deleter) deleter(states->of[stage]);
  }
  delete states;
  *state = nullptr;
}

// -- custom calls of the older kind -------------------------------------------------------------

struct XlaCustomCallStatus_ {
  std::string message;
  bool failed = false;
};

HL_API void XlaCustomCallStatusSetSuccess(XlaCustomCallStatus_* status) { status->failed = false; }
HL_API void XlaCustomCallStatusSetFailure(XlaCustomCallStatus_* status, const char* message,
                                          size_t size) {
  status->failed = true;
  status->message.assign(message, strnlen(message, size));
}

namespace {

const hl_attribute* opaque_of(const hl_call_frame* frame) {
  for (int64_t i = 0; i < frame->attribute_count; i++)
    if (frame->attributes[i].kind == HL_ATTRIBUTE_STRING && frame->attributes[i].name_size == 6 &&
        !memcmp(frame->attributes[i].name, "opaque", 6))
      return &frame->attributes[i];
  return nullptr;
}

struct Old {
  std::vector<void*> in, out;
  const char* opaque = "";
  size_t size = 0;
  explicit Old(const hl_call_frame* frame) {
    for (int64_t i = 0; i < frame->operand_count; i++) in.push_back(frame->operands[i].data);
    for (int64_t i = 0; i < frame->result_count; i++) out.push_back(frame->results[i].data);
    if (const hl_attribute* a = opaque_of(frame))
      opaque = (const char*)a->data, size = (size_t)a->count;
  }
  // A single result is its buffer, several are a table of buffers.
  void* result() { return out.size() == 1 ? out[0] : (void*)out.data(); }
};

}  // namespace

// API_VERSION_STATUS_RETURNING and _UNIFIED: `user` is f(out, in, opaque, size, status).
HL_API int32_t hl_status_custom_call(hl_context* ctx, const hl_call_frame* frame) {
  hloom::PackedBuffers packed(ctx, frame);
  if (!packed.frame()) return HL_RESOURCE_EXHAUSTED;
  Old old(packed.frame());
  XlaCustomCallStatus_ status;
  ((void (*)(void*, const void**, const char*, size_t, XlaCustomCallStatus_*))frame->user)(
      old.result(), (const void**)old.in.data(), old.opaque, old.size, &status);
  packed.put_back();
  return status.failed ? hl_set_error(ctx, HL_INTERNAL, "%s", status.message.c_str()) : HL_OK;
}

// API_VERSION_ORIGINAL: `user` is f(out, in).
HL_API int32_t hl_original_custom_call(hl_context* ctx, const hl_call_frame* frame) {
  hloom::PackedBuffers packed(ctx, frame);
  if (!packed.frame()) return HL_RESOURCE_EXHAUSTED;
  Old old(packed.frame());
  ((void (*)(void*, const void**))frame->user)(old.result(), (const void**)old.in.data());
  packed.put_back();
  return HL_OK;
}
