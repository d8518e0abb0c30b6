// What the plugin does, written down while a profiler asks for it: compiling, runs and their steps,
// arrays that are copied. Nothing else costs anything while nobody asks.
#ifndef HLOOM_RUNTIME_PJRT_PROFILER_H
#define HLOOM_RUNTIME_PJRT_PROFILER_H

#include "../steps.h"
#include "profiler_abi.h"
#include "program.h"

namespace hloom::pjrt {

extern std::atomic<bool> is_profiled;

// Something that this thread does, from here to the end of the block.
class Span {
 public:
  explicit Span(const char* what, int64_t bytes = -1) {
    if (is_profiled.load(std::memory_order_relaxed)) [[unlikely]] {
      what_ = what;
      bytes_ = bytes;
      begin_ns_ = now_ns();
    }
  }
  ~Span() {
    if (what_ != nullptr) [[unlikely]]
      end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  // Which program it is about.
  void name(const Program* program) {
    if (what_ != nullptr && program != nullptr) program_ = program->name;
  }

 private:
  void end();

  const char* what_ = nullptr;  // null: nobody asks
  std::string program_;
  int64_t bytes_, begin_ns_;
};

// A run of a program, whose steps are written into its context.
class RunSpan {
 public:
  RunSpan(const Run& run, hl_context* context) {
    if (is_profiled.load(std::memory_order_relaxed)) [[unlikely]]
      begin(run, context);
  }
  ~RunSpan() {
    if (run_ != nullptr) [[unlikely]]
      end();
  }
  RunSpan(const RunSpan&) = delete;
  RunSpan& operator=(const RunSpan&) = delete;

 private:
  void begin(const Run& run, hl_context* context);
  void end();

  const Run* run_ = nullptr;  // null: nobody asks
  hl_context* context_;
  int64_t begin_ns_;
  Steps steps_;
};

// The table behind the extension.
PLUGIN_Profiler_Api* profiler_api();

}  // namespace hloom::pjrt

#endif
