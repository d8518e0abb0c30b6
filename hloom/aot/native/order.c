/* Sorting and the first few of rows, for libraries of hloom.aot: no memory but what the caller lends.
 *
 * What comes out is bit for bit what hloom/runtime/native/sort.cc and topk.cc compute with all their
 * radixes and threads: by keys both are stable, which leaves one answer; by a comparator, whatever it
 * answers, the same comparisons are made in the same order.
 */
#include <stddef.h>
#include <stdint.h>

/* Declared here: compilers for machines without a system have no string.h. */
void *memcpy(void *to, const void *from, size_t count);

#define JOINED(a, b) a##b
#define WITH_PREFIX(a, b) JOINED(a, b)
#define NAMED(name) WITH_PREFIX(HLOOM_PREFIX, name)

enum { MOST_OPERANDS = 64, MOST_KEYS = 16, RUN = 8 };
enum { DESCENDING = 1, EQUAL_ZEROS = 2, EQUAL_NANS = 4 };
/* As in the protobuf enum. */
enum {
  S8 = 2, S16 = 3, S32 = 4, S64 = 5, F16 = 10, F32 = 11, F64 = 12, BF16 = 16, F8E5M2 = 19,
  F8E4M3FN = 20, S4 = 21, U4 = 22, F8E4M3B11FNUZ = 23, F8E5M2FNUZ = 24, F8E4M3FNUZ = 25, S2 = 26,
  U2 = 27, F8E4M3 = 28, F8E3M4 = 29, S1 = 30, U1 = 31, F4E2M1FN = 32, F8E8M0FNU = 33,
  F6E2M3FN = 35, F6E3M2FN = 36
};

typedef int8_t (*less_function)(const void *const *elements);

/* The first fields of hl_context (hloom/runtime/native/hl.h), where pointers have 64 bits; `user` is
 * the working memory. */
typedef struct {
  int32_t status, cancel, threads, device;
  uint64_t pool, arena;
  void *user;
} context;

/* -- keys: numbers whose unsigned order is that of the elements (runtime/native/sort_keys.cc) -- */

typedef struct {
  int is_nan, is_zero;
  uint8_t rank;
} byte_order;

static byte_order ranked(int is_nan, int is_zero, int rank) {
  byte_order order = {is_nan, is_zero, (uint8_t)rank};
  return order;
}

static byte_order of_byte(int64_t type, int x) {
  switch (type) {
    case S8: return ranked(0, 0, x ^ 0x80);
    case S4: return ranked(0, 0, (x & 15) ^ 8);
    case S2: return ranked(0, 0, (x & 3) ^ 2);
    case S1: return ranked(0, 0, (x & 1) ^ 1);
    case U4: return ranked(0, 0, x & 15);
    case U2: return ranked(0, 0, x & 3);
    case U1: return ranked(0, 0, x & 1);
    case F8E8M0FNU: return ranked(x == 0xff, 0, x);
    case F4E2M1FN: {
      int y = x & 15;
      return ranked(0, (y & 7) == 0, y & 8 ? ~y & 7 : y | 8);
    }
    case F6E2M3FN:
    case F6E3M2FN: {
      int y = x & 63;
      return ranked(0, (y & 31) == 0, y & 32 ? ~y & 31 : y | 32);
    }
    case F8E4M3B11FNUZ:
    case F8E5M2FNUZ:
    case F8E4M3FNUZ: /* the one NaN sits where -0 would be, and is above everything */
      if (x == 0x80) return ranked(1, 0, 0xff);
      return ranked(0, x == 0, x & 0x80 ? ~x & 0x7f : 0x7f + x);
    case F8E5M2:
    case F8E4M3FN:
    case F8E4M3:
    case F8E3M4: {
      int most = type == F8E5M2 ? 0x7c : type == F8E4M3FN ? 0x7e : type == F8E4M3 ? 0x78 : 0x70;
      return ranked((x & 0x7f) > most, (x & 0x7f) == 0, x & 0x80 ? ~x & 0x7f : x | 0x80);
    }
    default: return ranked(0, 0, x);
  }
}

static uint64_t byte_key(int64_t type, int64_t flags, uint8_t x) {
  byte_order order = of_byte(type, x);
  uint8_t key = order.rank;
  if ((flags & EQUAL_ZEROS) && order.is_zero) key = of_byte(type, 0).rank;
  else if ((flags & EQUAL_NANS) && order.is_nan) key = 0xff;
  return flags & DESCENDING ? (uint8_t)~key : key;
}

static uint64_t infinity_of(int64_t type) {
  switch (type) {
    case F16: return 0x7c00;
    case BF16: return 0x7f80;
    case F32: return 0x7f800000u;
    case F64: return 0x7ff0000000000000u;
    default: return 0;
  }
}

static uint64_t wide_key(int64_t type, int64_t flags, uint64_t x, int bytes) {
  uint64_t all = bytes == 8 ? ~(uint64_t)0 : ((uint64_t)1 << (8 * bytes)) - 1;
  uint64_t sign = (uint64_t)1 << (8 * bytes - 1), infinity = infinity_of(type), key = x;
  if (infinity != 0) {
    int is_zero = (flags & EQUAL_ZEROS) && x == sign;
    int is_nan = (flags & EQUAL_NANS) && (x & ~sign & all) > infinity;
    if (is_zero) x = 0;
    key = is_nan ? all : x & sign ? ~x & all : x | sign;
  } else if (type == S16 || type == S32 || type == S64) {
    key ^= sign;
  }
  return flags & DESCENDING ? ~key & all : key;
}

static uint64_t key_of(int64_t type, int64_t flags, const void *element, int64_t bytes) {
  uint16_t two;
  uint32_t four;
  uint64_t eight;
  switch (bytes) {
    case 1: return byte_key(type, flags, *(const uint8_t *)element);
    case 2: memcpy(&two, element, 2); return wide_key(type, flags, two, 2);
    case 4: memcpy(&four, element, 4); return wide_key(type, flags, four, 4);
    default: memcpy(&eight, element, 8); return wide_key(type, flags, eight, 8);
  }
}

/* -- sorting -- */

/* One row: element i of operand k stands at in[k] + i * step * sizes[k]. */
typedef struct {
  int64_t n, count, step, key_count;
  const char *in[MOST_OPERANDS];
  char *out[MOST_OPERANDS];
  int64_t strides[MOST_OPERANDS];
  const int64_t *sizes;
  less_function less;
  const uint64_t *keys; /* key k of element i: keys[k * n + i] */
  const void *elements[2 * MOST_OPERANDS];
} row;

static int is_less(row *r, uint32_t x, uint32_t y) {
  if (r->less != 0) {
    for (int64_t k = 0; k < r->count; k++) {
      r->elements[2 * k] = r->in[k] + x * r->strides[k];
      r->elements[2 * k + 1] = r->in[k] + y * r->strides[k];
    }
    return r->less(r->elements) != 0;
  }
  for (int64_t k = 0; k < r->key_count; k++) {
    uint64_t a = r->keys[k * r->n + x], b = r->keys[k * r->n + y];
    if (a != b) return a < b;
  }
  return 0;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The order of a row, in `a` or in `b`, which is returned: a merge sort whose every step is bounded. */
static uint32_t *ordered(row *r, uint32_t *a, uint32_t *b) {
  int64_t n = r->n;
  for (int64_t i = 0; i < n; i++) a[i] = (uint32_t)i;
  for (int64_t begin = 0; begin < n; begin += RUN)
    for (int64_t i = begin + 1; i < least(n, begin + RUN); i++) {
      uint32_t x = a[i];
      int64_t j = i;
      for (; j > begin && is_less(r, x, a[j - 1]); j--) a[j] = a[j - 1];
      a[j] = x;
    }
  for (int64_t run = RUN; run < n; run *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * run) {
      int64_t middle = least(n, begin + run), end = least(n, begin + 2 * run);
      if (middle == end || !is_less(r, a[middle], a[middle - 1])) { /* already in order */
        memcpy(b + begin, a + begin, (uint64_t)(end - begin) * sizeof *a);
        continue;
      }
      int64_t i = begin, j = middle;
      for (int64_t k = begin; k < end; k++) {
        int right = i == middle || (j < end && is_less(r, a[j], a[i]));
        b[k] = right ? a[j++] : a[i++];
      }
    }
    uint32_t *other = a;
    a = b;
    b = other;
  }
  return a;
}

static void write_row(row *r, const uint32_t *order, char *spare) {
  for (int64_t k = 0; k < r->count; k++) {
    int64_t size = r->sizes[k];
    if (r->out[k] == 0) continue;
    for (int64_t i = 0; i < r->n; i++) {
      uint64_t place = order[i]; /* little-endian: its first bytes are a narrower number */
      const void *from = r->in[k] ? (const void *)(r->in[k] + place * (uint64_t)r->strides[k]) : &place;
      memcpy(spare + i * size, from, (uint64_t)size);
    }
    for (int64_t i = 0; i < r->n; i++)
      memcpy(r->out[k] + i * r->step * size, spare + i * size, (uint64_t)size);
  }
}

static char *aligned(char *memory) { return (char *)(((uintptr_t)memory + 15) & ~(uintptr_t)15); }

/* All rows. Operands that are not there stand for the numbers 0, 1, ...; compared they need memory. */
static int32_t sort(context *c, int64_t outer, int64_t n, int64_t inner, int64_t count,
                    const void *const *in, void *const *out, const int64_t *sizes,
                    int64_t key_count, const int64_t *keys, less_function less) {
  row r;
  if (count > MOST_OPERANDS || key_count > MOST_KEYS) return 3;
  r.n = n, r.count = count, r.step = inner, r.sizes = sizes, r.less = less, r.key_count = key_count;
  uint64_t *numbers = (uint64_t *)aligned(c->user);
  uint64_t *end = numbers + (less ? count : key_count) * n;
  uint32_t *order = (uint32_t *)end, *other = order + n;
  char *spare = aligned((char *)(other + n));
  r.keys = numbers;
  for (int64_t place = 0; place < outer * inner; place++) {
    int64_t at = place / inner * n * inner + place % inner;
    for (int64_t k = 0; k < count; k++) {
      r.in[k] = in[k] ? (const char *)in[k] + at * sizes[k] : 0;
      r.out[k] = out[k] ? (char *)out[k] + at * sizes[k] : 0;
      r.strides[k] = inner * sizes[k];
    }
    for (int64_t k = 0; k < key_count; k++) {
      int64_t operand = keys[3 * k], type = keys[3 * k + 1], flags = keys[3 * k + 2];
      for (int64_t i = 0; i < n; i++) {
        uint64_t number = (uint64_t)i;
        const void *element = r.in[operand] ? (const void *)(r.in[operand] + i * r.strides[operand]) : &number;
        numbers[k * n + i] = key_of(type, flags, element, sizes[operand]);
      }
    }
    const char *given[MOST_OPERANDS];
    for (int64_t k = 0; k < count; k++) {
      given[k] = r.in[k];
      if (less == 0 || r.in[k] != 0) continue;
      for (int64_t i = 0; i < n; i++) numbers[k * n + i] = (uint64_t)i;
      r.in[k] = (const char *)(numbers + k * n);
      r.strides[k] = 8;
    }
    uint32_t *found = ordered(&r, order, other);
    for (int64_t k = 0; k < count; k++) r.in[k] = given[k];
    write_row(&r, found, spare);
  }
  return 0;
}

int32_t NAMED(hl_sort_keys)(context *c, int64_t outer, int64_t n, int64_t inner, int64_t count,
                            const void *const *in, void *const *out, const int64_t *sizes,
                            int64_t key_count, const int64_t *keys, int64_t is_stable) {
  (void)is_stable;
  return sort(c, outer, n, inner, count, in, out, sizes, key_count, keys, 0);
}

int32_t NAMED(hl_sort_compare)(context *c, int64_t outer, int64_t n, int64_t inner, int64_t count,
                               const void *const *in, void *const *out, const int64_t *sizes,
                               less_function less, int64_t is_stable) {
  (void)is_stable;
  return sort(c, outer, n, inner, count, in, out, sizes, 0, 0, less);
}

/* -- the first few: a heap of the best k, the worst of them on top -- */

typedef struct {
  uint64_t key, place;
} ranked_place;

static int is_before(ranked_place a, ranked_place b) {
  return a.key != b.key ? a.key < b.key : a.place < b.place;
}

static void sink(ranked_place *heap, int64_t n, int64_t at) {
  ranked_place x = heap[at];
  for (int64_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && is_before(heap[child], heap[child + 1])) child++;
    if (!is_before(x, heap[child])) break;
    heap[at] = heap[child];
  }
  heap[at] = x;
}

static int64_t bytes_of(int64_t type) {
  switch (type) {
    case S16: case 7: case F16: case BF16: return 2;
    case S32: case 8: case F32: return 4;
    case S64: case 9: case F64: return 8;
    default: return 1;
  }
}

int32_t NAMED(hl_topk)(context *c, int64_t rows, int64_t n, int64_t k, int64_t type, int64_t flags,
                       const void *in, void *values, int32_t *indices) {
  ranked_place *heap = (ranked_place *)aligned(c->user);
  int64_t bytes = bytes_of(type);
  for (int64_t r = 0; r < rows; r++) {
    const char *from = (const char *)in + r * n * bytes;
    for (int64_t i = 0; i < n; i++) {
      ranked_place x = {key_of(type, flags, from + i * bytes, bytes), (uint64_t)i};
      if (i < k) heap[i] = x;
      if (i + 1 == k)
        for (int64_t at = k / 2; at-- > 0;) sink(heap, k, at);
      if (i >= k && is_before(x, heap[0])) heap[0] = x, sink(heap, k, 0);
    }
    for (int64_t left = k - 1; left > 0; left--) {
      ranked_place last = heap[0];
      heap[0] = heap[left], heap[left] = last;
      sink(heap, left, 0);
    }
    for (int64_t i = 0; i < k; i++) {
      uint64_t place = heap[i].place;
      if (values) memcpy((char *)values + (r * k + i) * bytes, from + place * (uint64_t)bytes, (uint64_t)bytes);
      if (indices) indices[r * k + i] = (int32_t)place;
    }
  }
  return 0;
}
