/* Threads of a library of hloom.aot that was made with --threads: HLOOM_THREADS, with the caller.
 *
 * They are started when the first step is worth it, and wait until the process ends. One call has them at
 * a time; another that comes meanwhile computes alone, with the same result.
 */
#include <pthread.h>
#include <stdint.h>

#define JOINED(a, b) a##b
#define WITH_PREFIX(a, b) JOINED(a, b)
#define NAMED(name) WITH_PREFIX(HLOOM_PREFIX, name)

typedef void (*piece_function)(void *data, int64_t index);

/* Shorter steps are done before a thread has woken. */
enum { LEAST_NS = 20000 };

static pthread_mutex_t in_use = PTHREAD_MUTEX_INITIALIZER, lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
static int started, inside; /* threads that were started; that are in a step */
static uint64_t step;       /* its number */
static piece_function piece;
static void *data;
static int64_t count, next;

static void work(piece_function f, void *d, int64_t n) {
  for (;;) {
    int64_t k = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
    if (k >= n) return;
    f(d, k);
  }
}

static void *worker(void *nothing) {
  uint64_t seen = 0;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (step == seen || !piece) {
      seen = step;
      pthread_cond_wait(&begun, &lock);
    }
    seen = step;
    inside++;
    piece_function f = piece;
    void *d = data;
    int64_t n = count;
    pthread_mutex_unlock(&lock);
    work(f, d, n);
    pthread_mutex_lock(&lock);
    if (--inside == 0) pthread_cond_signal(&ended);
  }
  return nothing;
}

/* The child of a fork has none of the threads. */
static void forget(void) {
  pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t none = PTHREAD_COND_INITIALIZER;
  in_use = lock = fresh, begun = ended = none;
  started = inside = 0, piece = 0;
}

static void start(void) {
  static int is_known;
  pthread_t id;
  pthread_attr_t detached;
  if (!is_known) is_known = pthread_atfork(0, 0, forget) == 0;
  if (pthread_attr_init(&detached)) return;
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  while (started < HLOOM_THREADS - 1 && pthread_create(&id, &detached, worker, 0) == 0) started++;
  pthread_attr_destroy(&detached);
}

static void parallel_for(void *self, piece_function f, void *d, int64_t n, int64_t serial_ns) {
  (void)self;
  if (n < 2 || serial_ns < LEAST_NS || pthread_mutex_trylock(&in_use)) {
    for (int64_t k = 0; k < n; k++) f(d, k);
    return;
  }
  if (started < HLOOM_THREADS - 1) start();
  pthread_mutex_lock(&lock);
  piece = f, data = d, count = n, step++;
  __atomic_store_n(&next, 0, __ATOMIC_RELAXED);
  pthread_cond_broadcast(&begun);
  pthread_mutex_unlock(&lock);
  work(f, d, n);
  pthread_mutex_lock(&lock);
  piece = 0; /* who wakes now is too late */
  while (inside) pthread_cond_wait(&ended, &lock);
  pthread_mutex_unlock(&lock);
  pthread_mutex_unlock(&in_use);
}

__attribute__((visibility("hidden"))) const struct {
  void (*parallel_for)(void *, piece_function, void *, int64_t, int64_t);
  void *self;
} NAMED(own_pool) = {parallel_for, 0};
