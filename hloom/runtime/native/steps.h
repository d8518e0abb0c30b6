// What a run does, step by step, written down while somebody watches (pjrt/profiler.cc).
//
// Only the thread that runs the program writes, and only steps that stand in no other one: parts of
// a region that other threads do belong to it. Nobody watching costs a load and a branch a step.
#ifndef HLOOM_RUNTIME_STEPS_H
#define HLOOM_RUNTIME_STEPS_H

#include <vector>

#include "context.h"

namespace hloom {

struct Step {
  const void* code;  // of a kernel, whose name the compiler knows; null: it has a name
  const char* name;  // stays as long as the program
  int64_t begin_ns, end_ns;
};

struct Steps {
  std::vector<Step> done;
  size_t most = 0;  // further ones are not kept
  bool inside = false;
};

// One step, from here to the end of the block.
class StepSpan {
 public:
  StepSpan(hl_context* context, const void* code, const char* name) : steps_(of(context)->steps) {
    if (steps_ == nullptr) [[likely]]
      return;
    begin(context, code, name);
  }
  ~StepSpan() {
    if (steps_ != nullptr) [[unlikely]]
      end();
  }
  StepSpan(const StepSpan&) = delete;
  StepSpan& operator=(const StepSpan&) = delete;

 private:
  void begin(hl_context* context, const void* code, const char* name) {
    if (steps_->inside || of(context)->in_region.load(std::memory_order_relaxed) != 0) {
      steps_ = nullptr;
      return;
    }
    steps_->inside = true;
    step_ = {code, name, now_ns(), 0};
  }
  void end() {
    step_.end_ns = now_ns();
    if (steps_->done.size() < steps_->most) steps_->done.push_back(step_);
    steps_->inside = false;
  }

  Steps* steps_;
  Step step_;
};

}  // namespace hloom

#endif
