// Code that is written for one device: the regions of shard_map and pmap.
//
// A program that computes the whole calls such a region as a custom call. Its operands are cut, the
// region's own program runs for every device at the same time, its results are joined.
#include <string.h>

#include "../custom_call.h"
#include "meeting.h"
#include "workers.h"

namespace hloom::pjrt {

int64_t attribute_number(const hl_call_frame* frame, const char* name, int64_t missing) {
  for (int64_t k = 0; k < frame->attribute_count; ++k) {
    const hl_attribute& a = frame->attributes[k];
    if (std::string(a.name, a.name_size) == name && a.kind == HL_ATTRIBUTE_SCALAR)
      return *static_cast<const int64_t*>(a.data);
  }
  return missing;
}

namespace {

// What a device is given of an operand: its shard, or the whole as it stands.
Value* shard_of(const Array& array, size_t device, void* whole) {
  if (!array.is_cut()) {
    auto* value = new Value;
    value->data = whole;
    value->size = array.size;
    return value;
  }
  Value* value = new_value(array.size);
  if (value != nullptr)
    copy_shard(array, device, static_cast<char*>(whole), static_cast<char*>(value->data), false);
  return value;
}

int run_device(Program* body, Run& outer, Meeting* meeting, int ordinal, const hl_call_frame* frame,
               std::string* message) {
  std::vector<Value*> inputs, outputs;
  bool fits = true;
  for (size_t k = 0; k < body->arguments.size(); ++k) {
    inputs.push_back(shard_of(body->arguments[k], ordinal, frame->operands[k].data));
    fits &= inputs.back() != nullptr;
  }
  if (!fits) {
    for (Value* value : inputs) release(value);
    *message = "no memory for the shards of " + body->name + " [out-of-memory]";
    return PJRT_Error_Code_RESOURCE_EXHAUSTED;
  }
  for (const Result& result : body->results) {
    outputs.push_back(new Value);
    outputs.back()->size = result.size;
  }
  Run run{body, outer.device, inputs.data(), outputs.data(), outer.user_data, {}, {}};
  run.meeting = meeting;
  run.ordinal = ordinal;
  run.outer = outer.meeting != nullptr ? &outer : nullptr;
  run.path = outer.path * body->partitions + ordinal;
  run.root = outer.root != nullptr ? outer.root : outer.program;
  int code = execute(&run, message);
  for (size_t k = 0; k < body->results.size(); ++k) {
    const Result& result = body->results[k];
    char* whole = static_cast<char*>(frame->results[k].data);
    char* shard = static_cast<char*>(outputs[k]->data);
    if (code == 0 && first_with(result, ordinal) == static_cast<size_t>(ordinal)) {
      if (result.is_cut()) copy_shard(result, ordinal, whole, shard, true);
      else if (result.size > 0) memcpy(whole, shard, result.size);
    }
    release(outputs[k]);
  }
  return code;
}

int32_t run_region(hl_context* context, const hl_call_frame* frame) {
  auto* outer = static_cast<Run*>(context->user);
  int64_t number = attribute_number(frame, "region", -1);
  Program* root = outer == nullptr         ? nullptr
                  : outer->root != nullptr ? outer->root
                                           : outer->program;
  if (root == nullptr || number < 0 || number >= static_cast<int64_t>(root->regions.size()))
    return hl_set_error(context, HL_INTERNAL, "there is no region %lld [region]",
                        static_cast<long long>(number));
  Program* body = root->regions[number];
  Meeting meeting(static_cast<int>(body->partitions));
  bool complete = run_team(static_cast<int>(body->partitions), [&](int ordinal) {
    std::string message;
    int code = run_device(body, *outer, &meeting, ordinal, frame, &message);
    if (code != 0) meeting.fail(code, message);
    meeting.leave(ordinal);
  });
  if (!complete)
    return hl_set_error(context, HL_RESOURCE_EXHAUSTED, "no threads for %lld devices [threads]",
                        static_cast<long long>(body->partitions));
  if (meeting.code() == 0) return HL_OK;
  return hl_set_error(context, meeting.code(), "%s", meeting.message().c_str());
}

}  // namespace

void register_manual() {
  hl_custom_call_register("hloom_manual_region", run_region, nullptr, 1 << HL_STAGE_EXECUTE);
  hl_custom_call_register("hloom_collective", run_collective, nullptr, 1 << HL_STAGE_EXECUTE);
}

}  // namespace hloom::pjrt
