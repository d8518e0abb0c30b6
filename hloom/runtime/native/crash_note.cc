// A last word before a code generator that lives in this process takes it down.
//
// Why: LLVM ends the process where it meets what it cannot compile (abort, or exit with 1), and where
// it has a fault itself. Nothing can be saved then: its locks are held and its memory is in any state,
// so there is no way back into Python. What can be said is which code it was, and a file can be left
// by which the next process knows not to compile that code itself (runtime/crash_notes.py).
//
// Where the process ends by exit, only one that LLVM called counts: Python is still there then, while
// it has taken itself down before an end of its own.
//
// The handlers do only what is safe in a signal, and hand on to whoever had the signal before.
#include "crash_note.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

namespace hloom {
namespace {

constexpr int kSignals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
constexpr int kMostThreads = 64;
constexpr size_t kLongestPath = 4096;

// Not thread-local: the first touch of such a variable may allocate, in a handler too.
struct Slot {
  std::atomic<bool> is_taken{false};
  std::atomic<bool> is_set{false};
  pthread_t owner;
  // Copies: whoever noted this may be interrupted before it says that it is done.
  char* words = nullptr;  // message, path and content, each with a zero behind it
  size_t room = 0;
  const char* message;
  const char* path;
  const char* content;
  int64_t size_bytes;
};

Slot slots[kMostThreads];
struct sigaction previous[sizeof(kSignals) / sizeof(int)];

Slot* own_slot() {
  for (Slot& slot : slots)
    if (slot.is_set.load(std::memory_order_acquire) &&
        pthread_equal(slot.owner, pthread_self()) != 0)
      return &slot;
  return nullptr;
}

void write_all(int file, const char* data, int64_t size_bytes) {
  while (size_bytes > 0) {
    ssize_t written = write(file, data, size_bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    data += written;
    size_bytes -= written;
  }
}

// The last two folders of a path, for the user alone.
void make_folders(const char* path) {
  char part[kLongestPath];
  size_t length = strlen(path);
  if (length >= sizeof(part)) return;
  memcpy(part, path, length + 1);
  char* last = strrchr(part, '/');
  if (last == nullptr || last == part) return;
  *last = 0;
  if (char* before = strrchr(part, '/'); before != nullptr && before != part) {
    *before = 0;
    mkdir(part, 0700);
    *before = '/';
  }
  mkdir(part, 0700);
}

void speak() {
  Slot* slot = own_slot();
  if (slot == nullptr) return;
  slot->is_set.store(false, std::memory_order_release);  // once
  write_all(STDERR_FILENO, slot->message, static_cast<int64_t>(strlen(slot->message)));
  make_folders(slot->path);
  int file = open(slot->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return;
  write_all(file, slot->content, slot->size_bytes);
  close(file);
}

int (*python_is_there)() = nullptr;

// Where LLVM has called exit the process ends at once: what other threads compile would meet LLVM
// half taken down, and a second fault would hide the first.
void speak_at_exit(int status, void*) {
  if (python_is_there == nullptr || python_is_there() == 0 || own_slot() == nullptr) return;
  speak();
  fflush(stdout);
  _exit(status);
}

void on_signal(int number, siginfo_t* info, void*) {
  int saved = errno;
  for (size_t k = 0; k < sizeof(kSignals) / sizeof(int); ++k)
    if (kSignals[k] == number) sigaction(number, &previous[k], nullptr);
  speak();
  errno = saved;
  if (info->si_code <= 0) raise(number);  // sent by somebody: it would not come again by itself
}

void install() {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (size_t k = 0; k < sizeof(kSignals) / sizeof(int); ++k)
    sigaction(kSignals[k], &action, &previous[k]);
  python_is_there = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  on_exit(speak_at_exit, nullptr);
}

// Keeps copies of all three; false where there is no memory for them.
bool keep(Slot& slot, const char* message, const char* path, const char* content,
          int64_t size_bytes) {
  size_t lengths[] = {strlen(message) + 1, strlen(path) + 1, static_cast<size_t>(size_bytes)};
  size_t wanted = lengths[0] + lengths[1] + lengths[2];
  if (slot.room < wanted) {
    free(slot.words);
    slot.words = static_cast<char*>(malloc(wanted));
    slot.room = slot.words == nullptr ? 0 : wanted;
    if (slot.words == nullptr) return false;
  }
  char* at = slot.words;
  slot.message = static_cast<char*>(memcpy(at, message, lengths[0]));
  slot.path = static_cast<char*>(memcpy(at += lengths[0], path, lengths[1]));
  slot.content = static_cast<char*>(memcpy(at += lengths[1], content, lengths[2]));
  slot.size_bytes = size_bytes;
  return true;
}

}  // namespace
}  // namespace hloom

HL_API int32_t hl_crash_note(const char* message, const char* path, const char* content,
                             int64_t size_bytes) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, hloom::install);
  hl_crash_note_done();  // of a compilation of this thread that was interrupted
  for (hloom::Slot& slot : hloom::slots) {
    if (slot.is_taken.exchange(true, std::memory_order_acquire)) continue;
    if (!hloom::keep(slot, message, path, content, size_bytes)) {
      slot.is_taken.store(false, std::memory_order_release);
      return 0;
    }
    slot.owner = pthread_self();
    slot.is_set.store(true, std::memory_order_release);
    return 1;
  }
  return 0;
}

HL_API void hl_crash_note_done() {
  if (hloom::Slot* slot = hloom::own_slot(); slot != nullptr) {
    slot->is_set.store(false, std::memory_order_release);
    slot->is_taken.store(false, std::memory_order_release);
  }
}
