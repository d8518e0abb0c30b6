/* Weights by name: the tensors of a safetensors file that a library maps, for libraries of hloom.aot.
 *
 * Before this stands the table `expected` (hloom/aot/tensors.py), in the order of the bytes of names.
 * The file's head is JSON, of which as much is read as safetensors has; whatever is wrong is said in
 * one line, and then what was loaded before stays.
 */
#define JOINED(a, b) a##b
#define WITH_PREFIX(a, b) JOINED(a, b)
#define NAMED(name) WITH_PREFIX(HLOOM_PREFIX, name)

#if defined(_WIN32)
#define PUBLIC __declspec(dllexport)
#elif defined(__wasm__)
#define EXPORTED(name) __attribute__((export_name(#name)))
#define EXPORTED_AS(name) EXPORTED(name)
#define PUBLIC
#else
#define PUBLIC __attribute__((visibility("default")))
#endif

enum {
  UNALIGNED = 3,
  UNREADABLE = 6,
  OTHER = 7,
  MISFIT = 9,
  MOST_NAME = 512,
  MOST_RANK = 32,
  MOST_DEPTH = 16
};
static const uint64_t MOST_HEAD = 100000000; /* as safetensors has it */

/* Where the table of pointers is, or null; functions of the library read it. */
const void* const* NAMED(weights_at) __attribute__((visibility("hidden")));
static const void *tensors[HLOOM_TENSORS], *found[HLOOM_TENSORS];

/* What is wrong, as a text that ends with a zero. */
static char problem[2 * MOST_NAME];
static uint64_t problem_size;

static void say(const char* words) {
  while (*words && problem_size + 1 < sizeof problem) problem[problem_size++] = *words++;
  problem[problem_size] = 0;
}

static void say_number(uint64_t n) {
  char digits[21];
  int at = 20;
  digits[at] = 0;
  do digits[--at] = (char)('0' + n % 10);
  while (n /= 10);
  say(digits + at);
}

static void say_shape(const char* dtype, const uint64_t* dims, uint64_t rank) {
  say(dtype);
  say("[");
  for (uint64_t k = 0; k < rank; k++) {
    if (k) say(",");
    say_number(dims[k]);
  }
  say("]");
}

static int order(const char* a, const char* b) {
  while (*a && *a == *b) a++, b++;
  return (int)(unsigned char)*a - (int)(unsigned char)*b;
}

typedef struct {
  const char *at, *end;
} text;

static int next(text* t) { /* The next character that is no space, which stays; 0 at the end. */
  while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\r' || *t->at == '\t'))
    t->at++;
  return t->at < t->end ? (unsigned char)*t->at : 0;
}

static int take(text* t, char c) {
  if (next(t) != (unsigned char)c) return 0;
  return t->at++, 1;
}

static int hexadecimal(text* t, uint32_t* code) {
  *code = 0;
  if (t->end - t->at < 4) return 0;
  for (int k = 0; k < 4; k++) {
    char c = *t->at++;
    uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                     : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                     : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                            : 16;
    if (digit == 16) return 0;
    *code = *code * 16 + digit;
  }
  return 1;
}

/* The character of an escape behind its backslash as UTF-8; how many bytes, 0: it is none. */
static int escaped(text* t, char* bytes) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  uint32_t code, low;
  if (t->at == t->end) return 0;
  char c = *t->at++;
  for (int k = 0; from[k]; k++)
    if (c == from[k]) return bytes[0] = to[k], 1;
  if (c != 'u' || !hexadecimal(t, &code)) return 0;
  if (code >= 0xd800 && code < 0xdc00) {
    if (t->end - t->at < 6 || *t->at++ != '\\' || *t->at++ != 'u' || !hexadecimal(t, &low))
      return 0;
    if (low < 0xdc00 || low > 0xdfff) return 0;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  if (code < 0x80) return bytes[0] = (char)code, 1;
  int count = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (int k = count - 1; k > 0; k--, code >>= 6) bytes[k] = (char)(0x80 | (code & 0x3f));
  bytes[0] = (char)((count == 2 ? 0xc0 : count == 3 ? 0xe0 : 0xf0) | code);
  return count;
}

/* A string of up to `room` - 1 bytes; one that is longer is cut, and is then no name of ours. */
static int string(text* t, char* out, uint64_t room) {
  uint64_t size = 0;
  if (!take(t, '"')) return 0;
  while (t->at < t->end && *t->at != '"') {
    char bytes[4];
    int count = 1;
    bytes[0] = *t->at++;
    if ((unsigned char)bytes[0] < 0x20) return 0;
    if (bytes[0] == '\\' && !(count = escaped(t, bytes))) return 0;
    for (int k = 0; k < count; k++, size++)
      if (size + 1 < room) out[size] = bytes[k];
  }
  out[size < room ? size : room - 1] = 0;
  return take(t, '"');
}

static int number(text* t, uint64_t* n) {
  int c = next(t), digits = 0;
  for (*n = 0; c >= '0' && c <= '9'; c = t->at < t->end ? (unsigned char)*t->at : 0, digits++) {
    if (*n > (UINT64_MAX >> 1) / 10 - 1) return 0;
    *n = *n * 10 + (uint64_t)(c - '0');
    t->at++;
  }
  return digits > 0;
}

/* Any value: what is said beside the tensors is nothing to us. */
static int skip(text* t, int depth) {
  char word[8];
  int c = next(t);
  if (c == '"') return string(t, word, sizeof word);
  if (c == '{' || c == '[') {
    char close = c == '{' ? '}' : ']';
    t->at++;
    if (depth == MOST_DEPTH) return 0;
    if (take(t, close)) return 1;
    do
      if ((c == '{' && (!string(t, word, sizeof word) || !take(t, ':'))) || !skip(t, depth + 1))
        return 0;
    while (take(t, ','));
    return take(t, close);
  }
  const char* begin = t->at;
  while (t->at < t->end && ((*t->at >= 'a' && *t->at <= 'z') || (*t->at >= '0' && *t->at <= '9') ||
                            *t->at == '-' || *t->at == '+' || *t->at == '.' || *t->at == 'E'))
    t->at++;
  return t->at > begin;
}

static int numbers(text* t, uint64_t* values, uint64_t most, uint64_t* count) {
  *count = 0;
  if (!take(t, '[')) return 0;
  if (take(t, ']')) return 1;
  do
    if (*count == most || !number(t, &values[(*count)++])) return 0;
  while (take(t, ','));
  return take(t, ']');
}

typedef struct {
  char dtype[16];
  uint64_t dims[MOST_RANK], rank, place[2];
} tensor;

static int described(text* t, tensor* x) {
  char key[24];
  uint64_t two = 0;
  int has_dtype = 0, has_shape = 0;
  if (!take(t, '{')) return 0;
  do {
    if (!string(t, key, sizeof key) || !take(t, ':')) return 0;
    int is_right;
    if (!order(key, "dtype")) is_right = has_dtype = string(t, x->dtype, sizeof x->dtype);
    else if (!order(key, "shape")) is_right = has_shape = numbers(t, x->dims, MOST_RANK, &x->rank);
    else if (!order(key, "data_offsets")) is_right = numbers(t, x->place, 2, &two);
    else is_right = skip(t, 0);
    if (!is_right) return 0;
  } while (take(t, ','));
  return take(t, '}') && has_dtype && has_shape && two == 2;
}

static int fits(const tensor* x, uint64_t slot) {
  if (order(x->dtype, expected[slot].dtype) || x->rank != expected[slot].rank) return 0;
  for (uint64_t k = 0; k < x->rank; k++)
    if (x->dims[k] != expected[slot].dims[k]) return 0;
  return 1;
}

static int64_t slot_of(const char* name) {
  int64_t low = 0, high = HLOOM_TENSORS;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    int side = order(name, expected[middle].name);
    if (!side) return middle;
    if (side < 0) high = middle;
    else low = middle + 1;
  }
  return -1;
}

static int is_none(const char* why) { return say("the file is no safetensors: "), say(why), OTHER; }

static int misfit(const char* name, const char* what) {
  say("the tensor ");
  say(name);
  say(what);
  return MISFIT;
}

static int one(text* t, const char* name, const char* data, uint64_t bytes) {
  tensor x;
  if (!described(t, &x)) return is_none("its head is malformed");
  int64_t slot = slot_of(name);
  if (slot < 0) return misfit(name, " of the file is none of the library's");
  if (found[slot]) return misfit(name, " is in the file twice");
  if (!fits(&x, (uint64_t)slot)) {
    misfit(name, " is ");
    say_shape(x.dtype, x.dims, x.rank);
    say(" in the file, and the library takes ");
    say_shape(expected[slot].dtype, expected[slot].dims, expected[slot].rank);
    return MISFIT;
  }
  if (x.place[1] > bytes || x.place[0] > x.place[1] ||
      x.place[1] - x.place[0] != expected[slot].bytes)
    return misfit(name, " is not all in the file");
  found[slot] = data + x.place[0];
  if ((uintptr_t)found[slot] % expected[slot].alignment)
    return misfit(name, " is not aligned in the file");
  return 0;
}

static int all(const char* file, uint64_t size) {
  char name[MOST_NAME];
  uint64_t head = 0;
  if (size < 8) return is_none("it is too short");
  for (int k = 0; k < 8; k++) head |= (uint64_t)(unsigned char)file[k] << 8 * k;
  if (head > MOST_HEAD || head > size - 8) return is_none("it is shorter than its head says");
  text t = {file + 8, file + 8 + head};
  if (!take(&t, '{')) return is_none("its head is malformed");
  if (!take(&t, '}')) {
    do {
      if (!string(&t, name, sizeof name) || !take(&t, ':')) return is_none("its head is malformed");
      if (!order(name, "__metadata__")) {
        if (!skip(&t, 0)) return is_none("its head is malformed");
        continue;
      }
      int status = one(&t, name, t.end, size - 8 - head);
      if (status) return status;
    } while (take(&t, ','));
    if (!take(&t, '}')) return is_none("its head is malformed");
  }
  if (next(&t)) return is_none("its head is malformed");
  for (int k = 0; k < HLOOM_TENSORS; k++)
    if (!found[k]) return misfit(expected[k].name, " is missing in the file");
  return 0;
}

#if defined(__wasm__)
EXPORTED_AS(HLOOM_SET)
#endif
PUBLIC int NAMED(set_weights)(const void* file, uint64_t size) {
  problem_size = 0;
  problem[0] = 0;
  if (!file || (uintptr_t)file % 64) return say("the memory is null or not aligned"), UNALIGNED;
  for (int k = 0; k < HLOOM_TENSORS; k++) found[k] = 0;
  int status = all(file, size);
  if (status) return status;
  for (int k = 0; k < HLOOM_TENSORS; k++) tensors[k] = found[expected_at[k]];
  __atomic_store_n(&NAMED(weights_at), (const void* const*)tensors, __ATOMIC_RELEASE);
  return 0;
}

#if defined(__wasm__)
EXPORTED_AS(HLOOM_PROBLEM)
#endif
PUBLIC const char* NAMED(weights_problem)(void) { return problem; }

#if defined(HLOOM_MAPS)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void* mapped;
static uint64_t mapped_size;

PUBLIC void NAMED(unload_weights)(void) {
  __atomic_store_n(&NAMED(weights_at), (const void* const*)0, __ATOMIC_RELEASE);
  if (mapped) munmap(mapped, mapped_size);
  mapped = 0;
}

static int unreadable(void) {
  return problem_size = 0, say("the file of the weights cannot be read"), UNREADABLE;
}

PUBLIC int NAMED(load_weights)(const char* path) {
  struct stat about;
  if (!path) return UNALIGNED;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return unreadable();
  if (fstat(file, &about) || !S_ISREG(about.st_mode)) return close(file), unreadable();
  if (about.st_size < 8) return close(file), problem_size = 0, is_none("it is too short");
  uint64_t size = (uint64_t)about.st_size;
  void* data = mmap(0, size, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (data == MAP_FAILED) return unreadable();
  int status = NAMED(set_weights)(data, size);
  if (status) return munmap(data, size), status;
  if (mapped) munmap(mapped, mapped_size);
  mapped = data;
  mapped_size = size;
  return 0;
}
#endif
