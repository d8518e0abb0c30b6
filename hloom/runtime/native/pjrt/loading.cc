// Saved programs, made ready to run without Python: code, memory and arrays stand in the file.
#include "loading.h"

#include <sched.h>
#include <stdio.h>

#include "../saved.h"

namespace hloom::pjrt {
namespace {

// The pool of all programs that are loaded so: as many threads as the process may use.
hl_pool* shared_pool() {
  static hl_pool* pool = [] {
    cpu_set_t set;
    int threads = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    if (FILE* file = fopen("/sys/fs/cgroup/cpu.max", "r")) {
      long quota = 0, period = 0;
      if (fscanf(file, "%ld %ld", &quota, &period) == 2 && period > 0 && quota / period < threads)
        threads = static_cast<int>(quota / period);
      fclose(file);
    }
    return hl_pool_new(threads < 1 ? 1 : threads);
  }();
  return pool;
}

PJRT_Error* loaded(std::string_view bytes, Ref<Program>* program) {
  saved::File file;
  std::string words;
  if (!saved::open(bytes, &file, &words))
    return failure(PJRT_Error_Code_INVALID_ARGUMENT, words + " [saved-program]");
  if (shared_pool() == nullptr)
    return failure(PJRT_Error_Code_RESOURCE_EXHAUSTED, "no memory for threads [out-of-memory]");
  Problem problem;
  Ref<hl_program> core(load_program(file, shared_pool(), true, &problem));
  if (core == nullptr) {
    std::string rule = problem.rule.empty() ? "" : " [" + problem.rule + "]";
    return failure(problem.status, problem.text + rule);
  }
  return with_launch_spec(core.get(), file.section(saved::kLaunch), program);
}

// The bytes behind the message that jaxlib puts before what `serialize` gives: its length, itself.
std::string_view without_message(std::string_view saved) {
  size_t length = 0;
  for (size_t at = 0; at < saved.size() && at < 5; ++at) {
    length |= static_cast<size_t>(saved[at] & 0x7f) << 7 * at;
    if (saved[at] & 0x80) continue;
    if (length > saved.size() - at - 1) break;
    std::string_view rest = saved.substr(at + 1 + length);
    return rest.starts_with(saved::kMagic) ? rest : saved;
  }
  return saved;
}

}  // namespace

PJRT_Error* program_in(const char* given, size_t given_size, Ref<Program>* program) {
  return loaded(without_message({given, given_size}), program);
}

}  // namespace hloom::pjrt
