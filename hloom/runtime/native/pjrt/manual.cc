// Code that is written for one device: the manual computations of shard_map and pmap.
//
// A program that computes the whole calls one as a custom call. Its operands are cut, the
// manual computation's own program runs for every device at the same time, its results are joined.
#include <string.h>

#include <deque>
#include <map>

#include "../custom_call.h"
#include "program.h"
#include "workers.h"

namespace hloom::pjrt {

namespace {

const hl_attribute* attribute(const hl_call_frame* frame, const char* name, int32_t kind) {
  for (int64_t k = 0; k < frame->attribute_count; ++k) {
    const hl_attribute& a = frame->attributes[k];
    if (std::string(a.name, a.name_size) == name && a.kind == kind) return &a;
  }
  return nullptr;
}

int64_t number(const hl_call_frame* frame, const char* name) {
  const hl_attribute* found = attribute(frame, name, HL_ATTRIBUTE_SCALAR);
  return found == nullptr ? -1 : *static_cast<const int64_t*>(found->data);
}

std::vector<int64_t> numbers(const hl_call_frame* frame, const char* name) {
  const hl_attribute* found = attribute(frame, name, HL_ATTRIBUTE_ARRAY);
  if (found == nullptr) return {};
  auto* data = static_cast<const int64_t*>(found->data);
  return std::vector<int64_t>(data, data + found->count);
}

// A list that stays as long as the process, one for equal ones: cliques are known by its address.
const std::vector<int64_t>* kept(std::vector<int64_t> list) {
  static std::mutex mutex;
  static std::map<std::vector<int64_t>, std::unique_ptr<std::vector<int64_t>>> all;
  std::lock_guard<std::mutex> guard(mutex);
  auto& slot = all[list];
  if (slot == nullptr) slot = std::make_unique<std::vector<int64_t>>(std::move(list));
  return slot.get();
}

// For each device the first that is at the same place of all manual computations: it speaks for the others.
std::vector<int64_t> speakers(const std::vector<MeshPosition::Level>& levels) {
  std::map<std::vector<int64_t>, int64_t> first;
  std::vector<int64_t> found;
  for (size_t d = 0; d < levels[0].of_device->size(); ++d) {
    std::vector<int64_t> at;
    for (const MeshPosition::Level& level : levels) at.push_back((*level.of_device)[d]);
    found.push_back(first.try_emplace(at, d).first->second);
  }
  return found;
}

// The device that speaks for a place of the innermost level; -1: there is none.
int64_t device_at(const std::vector<MeshPosition::Level>& levels) {
  for (size_t d = 0; d < levels[0].of_device->size(); ++d) {
    bool is_there = true;
    for (const MeshPosition::Level& level : levels)
      is_there &= (*level.of_device)[d] == level.ordinal;
    if (is_there) return static_cast<int64_t>(d);
  }
  return -1;
}

Patience patience_of(const hl_call_frame* frame) {
  Patience found;
  std::vector<int64_t> given = numbers(frame, "patience_ms");
  if (given.size() == 3) found = {given[0] * 1'000'000, given[1] * 1'000'000, given[2] * 1'000'000};
  return found;
}

// What a device is given of an operand: its shard, or the whole as it stands.
Ref<Storage> shard_of(const Array& array, size_t device, void* whole) {
  if (!array.is_cut()) {
    Ref<Storage> storage(new Storage);
    storage->data = whole;
    storage->size = array.size;
    return storage;
  }
  Ref<Storage> storage = new_storage(array.size);
  if (storage != nullptr)
    copy_shard(array, device, static_cast<char*>(whole), static_cast<char*>(storage->data), false);
  return storage;
}

int run_device(Program* body, Run& outer, MeshPosition* place, const hl_call_frame* frame,
               std::string* message) {
  std::vector<Ref<Storage>> inputs, outputs;
  for (size_t k = 0; k < body->arguments.size(); ++k) {
    inputs.push_back(shard_of(body->arguments[k], place->ordinal, frame->operands[k].data));
    if (inputs.back()) continue;
    *message = "no memory for the shards of " + body->name + " [out-of-memory]";
    return PJRT_Error_Code_RESOURCE_EXHAUSTED;
  }
  for (const Result& result : body->results) {
    outputs.emplace_back(new Storage);
    outputs.back()->size = result.size;
  }
  Run run{body, outer.device, inputs.data(), outputs.data(), outer.user_data};
  run.place = place;
  run.root = outer.root != nullptr ? outer.root : outer.program;
  int code = execute(&run, message);
  for (size_t k = 0; k < body->results.size(); ++k) {
    const Result& result = body->results[k];
    char* whole = static_cast<char*>(frame->results[k].data);
    char* shard = static_cast<char*>(outputs[k]->data);
    size_t ordinal = static_cast<size_t>(place->ordinal);
    if (code == 0 && first_with(result, ordinal) == ordinal) {
      if (result.is_cut()) copy_shard(result, ordinal, whole, shard, true);
      else if (result.size > 0) memcpy(whole, shard, result.size);
    }
  }
  return code;
}

// All places of a manual computation at once, in a meeting of their own or in that of the one
// around it.
int32_t run_places(hl_context* context, const hl_call_frame* frame, Program* body, Run& outer,
                   const std::vector<int64_t>* of_device, Meeting* meeting) {
  std::vector<MeshPosition> places;
  std::vector<std::unique_ptr<InProcess>> own;
  const std::vector<int64_t>* first = nullptr;
  InProcess* around = outer.place == nullptr ? nullptr : outer.place->own;
  int count = static_cast<int>(body->partitions);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    MeshPosition place{{}, nullptr, ordinal};
    if (outer.place != nullptr) place.levels = outer.place->levels;
    place.levels.push_back({of_device, ordinal});
    if (first == nullptr) first = kept(speakers(place.levels));
    int64_t device = device_at(place.levels);
    if (device < 0) {
      for (auto& each : own) each->end(HL_OK, "");
      return hl_set_error(context, HL_INTERNAL, "no device is at place %d of a region [region]",
                          ordinal);
    }
    own.push_back(std::make_unique<InProcess>(meeting, &body->operations, device, around, first));
    place.own = own.back().get();
    places.push_back(std::move(place));
  }
  bool complete = run_team(count, [&](int ordinal) {
    std::string message;
    MeshPosition& place = places[ordinal];
    int code = run_device(body, outer, &place, frame, &message);
    place.own->end(code, message);
  });
  if (!complete) {
    for (MeshPosition& place : places)
      place.own->end(HL_RESOURCE_EXHAUSTED, "no thread for it [threads]");
  }
  if (meeting->status() == HL_OK) return HL_OK;
  return hl_set_error(context, meeting->status(), "%s", meeting->message().c_str());
}

int32_t run_manual(hl_context* context, const hl_call_frame* frame) {
  auto* outer = static_cast<Run*>(context->user);
  int64_t which = number(frame, "region");
  Program* root = outer == nullptr         ? nullptr
                  : outer->root != nullptr ? outer->root
                                           : outer->program;
  std::vector<int64_t> of_device = numbers(frame, "places");
  if (root == nullptr || which < 0 ||
      which >= static_cast<int64_t>(root->manual_computations.size()) || of_device.empty())
    return hl_set_error(context, HL_INTERNAL, "there is no region %lld [region]",
                        static_cast<long long>(which));
  Program* body = root->manual_computations[which].get();
  const std::vector<int64_t>* places = kept(std::move(of_device));
  if (outer->place != nullptr)
    return run_places(context, frame, body, *outer, places, &outer->place->own->meeting());
  Meeting meeting(static_cast<int64_t>(places->size()), patience_of(frame));
  return run_places(context, frame, body, *outer, places, &meeting);
}

}  // namespace

int run_each(Program* program, const Together& together, Ref<Storage>* inputs,
             Ref<Storage>* outputs, const hloom::UserDataList& user_data, std::string* message) {
  const Span* span = together.span.get();
  Meeting meeting(together.count, program->patience, span);
  std::deque<InProcess> own;
  size_t count = together.devices.size();
  for (int64_t position : together.positions)
    own.emplace_back(&meeting, &program->operations, position);
  if (span != nullptr) span->open(&meeting);
  size_t argument_count = program->arguments.size(), result_count = program->results.size();
  bool complete = run_team(static_cast<int>(count), [&](int d) {
    MeshPosition place{{}, &own[d], static_cast<int>(together.positions[d])};
    Run run{program, together.devices[d], inputs + d * argument_count, outputs + d * result_count,
            user_data};
    run.place = &place;
    std::string words;
    int code = execute(&run, &words);
    own[d].end(code, words);
  });
  for (size_t d = 0; d < count && !complete; ++d)
    own[d].end(HL_RESOURCE_EXHAUSTED, "no thread for it [threads]");
  meeting.say_ended();
  if (span != nullptr) span->close();
  *message = meeting.message();
  return meeting.status();
}

void register_manual() {
  hl_custom_call_register("hloom_manual_region", run_manual, nullptr, 1 << HL_STAGE_EXECUTE);
}

}  // namespace hloom::pjrt
