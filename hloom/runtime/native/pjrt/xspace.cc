// Writing XSpaces: planes have lines, lines events, and events numbers of names that stand once.
#include "xspace.h"

#include <algorithm>

namespace hloom::pjrt {
namespace {

// Messages of protobuf, as far as these need it.
class Message {
 public:
  void number(int field, uint64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(value);
  }
  void text(int field, const std::string& value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes_ += value;
  }
  void message(int field, const Message& value) { text(field, value.bytes_); }
  std::string taken() { return std::move(bytes_); }

 private:
  void varint(uint64_t value) {
    while (value >= 0x80) {
      bytes_.push_back(static_cast<char>(value | 0x80));
      value >>= 7;
    }
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

// Names with numbers from 1 on.
class Names {
 public:
  uint64_t operator()(const std::string& name) {
    auto [place, is_new] = numbers_.try_emplace(name, listed_.size() + 1);
    if (is_new) listed_.push_back(name);
    return place->second;
  }
  // As entries of a map from numbers to messages that hold number and name.
  void write(Message* plane, int field) const {
    for (size_t k = 0; k < listed_.size(); ++k) {
      Message named, entry;
      named.number(1, k + 1);
      named.text(2, listed_[k]);
      entry.number(1, k + 1);
      entry.message(2, named);
      plane->message(field, entry);
    }
  }

 private:
  std::map<std::string, uint64_t> numbers_;
  std::vector<std::string> listed_;
};

// Fields of the messages.
enum { kSpacePlane = 1 };
enum { kPlaneName = 2, kPlaneLine = 3, kPlaneEventNames = 4, kPlaneStatNames = 5 };
enum { kLineId = 1, kLineName = 2, kLineBeginNs = 3, kLineEvent = 4 };
enum { kEventName = 1, kEventOffsetPs = 2, kEventDurationPs = 3, kEventStat = 4 };
enum { kStatName = 1, kStatInteger = 4, kStatText = 5 };

struct Plane {
  Message message;
  Names event_names, stat_names;

  Message stat(const char* name, int64_t value) {
    Message made;
    made.number(kStatName, stat_names(name));
    made.number(kStatInteger, static_cast<uint64_t>(value));
    return made;
  }
  Message stat(const char* name, const std::string& value) {
    Message made;
    made.number(kStatName, stat_names(name));
    made.text(kStatText, value);
    return made;
  }
};

Message event_message(Plane* plane, const Event& event, int64_t origin_ns) {
  Message made;
  made.number(kEventName, plane->event_names(event.name));
  made.number(kEventOffsetPs, static_cast<uint64_t>(event.begin_ns - origin_ns) * 1000);
  made.number(kEventDurationPs, static_cast<uint64_t>(event.end_ns - event.begin_ns) * 1000);
  if (event.is_step) made.message(kEventStat, plane->stat("hlo_op", event.name));
  if (!event.program.empty()) made.message(kEventStat, plane->stat("hlo_module", event.program));
  if (event.run >= 0) made.message(kEventStat, plane->stat("run_id", event.run));
  if (event.device >= 0) made.message(kEventStat, plane->stat("device_ordinal", event.device));
  if (event.bytes >= 0) made.message(kEventStat, plane->stat("bytes", event.bytes));
  return made;
}

}  // namespace

std::string written(const std::vector<Event>& events, const std::map<int64_t, std::string>& threads,
                    int64_t wall_ns) {
  std::map<int64_t, std::vector<const Event*>> lines;
  for (const Event& event : events) lines[event.thread].push_back(&event);
  Plane plane;
  plane.message.text(kPlaneName, "/host:CPU");  // jaxlib puts its own lines into it
  for (auto& [thread, listed] : lines) {
    // What holds others comes before them.
    std::stable_sort(listed.begin(), listed.end(), [](const Event* a, const Event* b) {
      return a->begin_ns != b->begin_ns ? a->begin_ns < b->begin_ns : a->end_ns > b->end_ns;
    });
    int64_t origin_ns = listed.front()->begin_ns;
    Message line;
    line.number(kLineId, static_cast<uint64_t>(thread));
    line.text(kLineName, threads.at(thread));
    line.number(kLineBeginNs, static_cast<uint64_t>(origin_ns + wall_ns));
    for (const Event* event : listed)
      line.message(kLineEvent, event_message(&plane, *event, origin_ns));
    plane.message.message(kPlaneLine, line);
  }
  plane.event_names.write(&plane.message, kPlaneEventNames);
  plane.stat_names.write(&plane.message, kPlaneStatNames);
  Message space;
  space.message(kSpacePlane, plane.message);
  return space.taken();
}

}  // namespace hloom::pjrt
