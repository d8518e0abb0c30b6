// Infeed and outfeed: queues of items, each a list of buffers, between the host and programs.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <new>

#include "host.h"
#include "context.h"
#include "steps.h"

namespace {

struct Item {
  Item* next;
  int64_t count;
  int64_t* sizes;  // count of them, then the bytes of the buffers, one after the other
  char* bytes;
};

Item* new_item(const void* const* buffers, const int64_t* sizes, int64_t count) {
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (sizes[i] < 0 || __builtin_add_overflow(total, sizes[i], &total)) return nullptr;
  }
  if (total > INT64_MAX / 2) return nullptr;
  Item* item = static_cast<Item*>(malloc(sizeof(Item) + count * sizeof(int64_t) + total));
  if (item == nullptr) return nullptr;
  item->next = nullptr;
  item->count = count;
  item->sizes = reinterpret_cast<int64_t*>(item + 1);
  item->bytes = reinterpret_cast<char*>(item->sizes + count);
  char* at = item->bytes;
  for (int64_t i = 0; i < count; ++i) {
    item->sizes[i] = sizes[i];
    if (sizes[i] != 0) memcpy(at, buffers[i], sizes[i]);
    at += sizes[i];
  }
  return item;
}

}  // namespace

struct hl_queue {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed;
  Item* first = nullptr;
  Item* last = nullptr;
  int64_t length = 0;
  int64_t capacity = 0;
  bool closed = false;

  // Waits for a change, until `deadline` at most, and at most 10 ms, so that a program that is
  // cancelled stops waiting.
  void wait(int64_t deadline) {
    int64_t until = hloom::now_ns() + 10'000'000;
    if (deadline >= 0 && deadline < until) until = deadline;
    timespec time{static_cast<time_t>(until / 1'000'000'000),
                  static_cast<long>(until % 1'000'000'000)};
    pthread_cond_timedwait(&changed, &mutex, &time);
  }
};

namespace {

// Waits until `ready`, with the mutex held: HL_OK, or why it was given up.
template <typename Ready>
int32_t wait_for(hl_queue* queue, const hl_context* context, int64_t timeout_ns, Ready ready) {
  int64_t deadline = timeout_ns < 0 ? -1 : hloom::now_ns() + timeout_ns;
  while (!ready()) {
    if (queue->closed || (context != nullptr && hloom::is_cancelled(context))) return HL_CANCELLED;
    if (deadline >= 0 && hloom::now_ns() >= deadline) return HL_DEADLINE_EXCEEDED;
    queue->wait(deadline);
  }
  return HL_OK;
}

int32_t push(hl_queue* queue, const hl_context* context, const void* const* buffers,
             const int64_t* sizes, int64_t count, int64_t timeout_ns) {
  Item* item = new_item(buffers, sizes, count);
  if (item == nullptr) return HL_RESOURCE_EXHAUSTED;
  pthread_mutex_lock(&queue->mutex);
  int32_t status = wait_for(queue, context, timeout_ns,
                            [&] { return !queue->closed && queue->length < queue->capacity; });
  if (status == HL_OK) {
    (queue->last == nullptr ? queue->first : queue->last->next) = item;
    queue->last = item;
    ++queue->length;
    pthread_cond_broadcast(&queue->changed);
  }
  pthread_mutex_unlock(&queue->mutex);
  if (status != HL_OK) free(item);
  return status;
}

// Takes the first item if its buffers have these sizes; else it stays.
int32_t pop(hl_queue* queue, const hl_context* context, void* const* buffers, const int64_t* sizes,
            int64_t count, int64_t timeout_ns) {
  pthread_mutex_lock(&queue->mutex);
  int32_t status = wait_for(queue, context, timeout_ns, [&] { return queue->first != nullptr; });
  Item* item = queue->first;
  if (status == HL_OK) {
    bool fits = item->count == count;
    for (int64_t i = 0; fits && i < count; ++i) fits = item->sizes[i] == sizes[i];
    if (!fits) status = HL_INVALID_ARGUMENT;
  }
  if (status == HL_OK) {
    queue->first = item->next;
    if (queue->first == nullptr) queue->last = nullptr;
    --queue->length;
    pthread_cond_broadcast(&queue->changed);
  }
  pthread_mutex_unlock(&queue->mutex);
  if (status != HL_OK) return status;
  const char* at = item->bytes;
  for (int64_t i = 0; i < count; ++i) {
    if (sizes[i] != 0) memcpy(buffers[i], at, sizes[i]);
    at += sizes[i];
  }
  free(item);
  return HL_OK;
}

int32_t explain(hl_context* context, int32_t status, const char* what) {
  switch (status) {
    case HL_OK:
      return HL_OK;
    case HL_CANCELLED:
      return hl_set_error(context, status, "%s: cancelled, or the queue was closed", what);
    case HL_DEADLINE_EXCEEDED:
      return hl_set_error(context, status, "%s: waited for %g s in vain", what,
                          hloom::of(context)->feed_timeout_ns * 1e-9);
    case HL_INVALID_ARGUMENT:
      return hl_set_error(context, status,
                          "%s: the next item's buffers are not of the number and sizes that the "
                          "program expects",
                          what);
    default:
      return hl_set_error(context, status, "%s: out of memory", what);
  }
}

}  // namespace

// A queue that holds up to `capacity` items. Null: out of memory.
HL_API hl_queue* hl_queue_new(int64_t capacity) {
  hl_queue* queue = new (std::nothrow) hl_queue;
  if (queue == nullptr) return nullptr;
  queue->capacity = capacity < 1 ? 1 : capacity;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&queue->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  return queue;
}

// Nobody may be waiting any more: hl_queue_close ends their waiting.
HL_API void hl_queue_free(hl_queue* queue) {
  if (queue == nullptr) return;
  while (Item* item = queue->first) {
    queue->first = item->next;
    free(item);
  }
  pthread_cond_destroy(&queue->changed);
  delete queue;
}

// Items in the queue can still be taken; who waits, or puts, gets HL_CANCELLED.
HL_API void hl_queue_close(hl_queue* queue) {
  pthread_mutex_lock(&queue->mutex);
  queue->closed = true;
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->mutex);
}

HL_API int64_t hl_queue_length(hl_queue* queue) {
  pthread_mutex_lock(&queue->mutex);
  int64_t length = queue->length;
  pthread_mutex_unlock(&queue->mutex);
  return length;
}

// Copies an item in, waiting for room for `timeout_ns` (negative: for ever). Returns a status.
HL_API int32_t hl_queue_push(hl_queue* queue, const void* const* buffers, const int64_t* sizes,
                             int64_t count, int64_t timeout_ns) {
  return push(queue, nullptr, buffers, sizes, count, timeout_ns);
}

// Copies the first item out, waiting for one. HL_INVALID_ARGUMENT: it has other sizes, and stays.
HL_API int32_t hl_queue_pop(hl_queue* queue, void* const* buffers, const int64_t* sizes,
                            int64_t count, int64_t timeout_ns) {
  return pop(queue, nullptr, buffers, sizes, count, timeout_ns);
}

// Waits for an item and writes up to `most` sizes of its buffers; returns their number, or minus
// the status.
HL_API int64_t hl_queue_next_sizes(hl_queue* queue, int64_t* sizes, int64_t most,
                                   int64_t timeout_ns) {
  pthread_mutex_lock(&queue->mutex);
  int32_t status = wait_for(queue, nullptr, timeout_ns, [&] { return queue->first != nullptr; });
  int64_t count = -status;
  if (status == HL_OK) {
    count = queue->first->count;
    for (int64_t i = 0; i < count && i < most; ++i) sizes[i] = queue->first->sizes[i];
  }
  pthread_mutex_unlock(&queue->mutex);
  return count;
}

// For programs: the next item of the infeed, into these buffers.
HL_API int32_t hl_infeed(hl_context* context, void** buffers, const int64_t* sizes, int64_t count) {
  hloom::StepSpan step(context, nullptr, "infeed");
  hloom::Context* inner = hloom::of(context);
  if (inner->infeed == nullptr)
    return hl_set_error(context, HL_FAILED_PRECONDITION, "infeed: the context has no infeed");
  return explain(context,
                 pop(inner->infeed, context, buffers, sizes, count, inner->feed_timeout_ns),
                 "infeed");
}

// For programs: puts an item into the outfeed.
HL_API int32_t hl_outfeed(hl_context* context, void** buffers, const int64_t* sizes,
                          int64_t count) {
  hloom::StepSpan step(context, nullptr, "outfeed");
  hloom::Context* inner = hloom::of(context);
  if (inner->outfeed == nullptr)
    return hl_set_error(context, HL_FAILED_PRECONDITION, "outfeed: the context has no outfeed");
  return explain(context,
                 push(inner->outfeed, context, buffers, sizes, count, inner->feed_timeout_ns),
                 "outfeed");
}
