// The registry: names to handlers. Entries are never freed, as programs keep pointers to them; a
// second registration under a name replaces the handler of the first.
#include "custom_call.h"

#include <stdlib.h>
#include <string.h>

#include <initializer_list>
#include <mutex>

#include "library_calls.h"

struct hl_custom_call {
  char* name;
  hl_handler handler;
  void* user;
  int64_t stages;
  hl_custom_call* next;
};

namespace hloom {
namespace {

std::mutex& registry_mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

hl_custom_call*& first() {
  static hl_custom_call* list = nullptr;
  return list;
}

hl_custom_call* found(const char* name) {
  for (hl_custom_call* c = first(); c; c = c->next)
    if (!strcmp(c->name, name)) return c;
  return nullptr;
}

int32_t add(const char* name, hl_handler handler, void* user, int64_t stages) {
  if (hl_custom_call* c = found(name)) {
    c->handler = handler, c->user = user, c->stages = stages;
    return HL_OK;
  }
  auto* c = (hl_custom_call*)malloc(sizeof(hl_custom_call));
  char* copy = strdup(name);
  if (!c || !copy) return HL_RESOURCE_EXHAUSTED;
  *c = {copy, handler, user, stages, first()};
  first() = c;
  return HL_OK;
}

void add_built_in() {
  static bool done = false;
  if (done) return;
  done = true;
  for (const BuiltIn* table : {linalg_calls(), library_calls()})
    for (const BuiltIn* b = table; b->name; b++)
      if (!found(b->name)) add(b->name, b->handler, nullptr, 1 << HL_STAGE_EXECUTE);
}

}  // namespace
}  // namespace hloom

HL_API int32_t hl_custom_call_register(const char* name, hl_handler handler, void* user, int64_t stages) {
  std::lock_guard<std::mutex> lock(hloom::registry_mutex());
  return hloom::add(name, handler, user, stages);
}

HL_API const hl_custom_call* hl_custom_call_find(const char* name) {
  std::lock_guard<std::mutex> lock(hloom::registry_mutex());
  hloom::add_built_in();
  return hloom::found(name);
}

HL_API int32_t hl_custom_call_run(hl_context* ctx, const hl_custom_call* call, const hl_call_frame* frame) {
  if (!call) return hl_set_error(ctx, HL_NOT_FOUND, "custom call without a handler");
  if (!(call->stages >> frame->stage & 1)) return HL_OK;
  hl_call_frame own = *frame;
  own.user = call->user;
  return call->handler(ctx, &own);
}

// Whether the calls go to this function now.
HL_API int32_t hl_custom_call_uses(const hl_custom_call* call, hl_handler handler) { return call->handler == handler; }
