// Opens saved programs. Nothing in the bytes is believed before it has been checked.
#include "saved.h"

#include <string.h>

#include "crc32.h"
#include "joined.h"

namespace hloom::saved {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSummedHead = offsetof(Head, crc);
const char* const kCutOff = "a saved program is cut off; copy it again, or compile it again";
const char* const kWrongSum =
    "the checksum of a saved program is wrong: it was altered; copy it again, or compile it again";

uint64_t begin_after(uint64_t at, uint32_t kind) {
  uint64_t alignment = kind == kConstants ? kPage : kAlignment;
  return (at + alignment - 1) / alignment * alignment;
}

bool is_blank(std::string_view bytes) { return bytes.find_first_not_of('\0') == bytes.npos; }

uint32_t sum(std::string_view bytes, uint32_t crc = 0) {
  return hl_crc32(crc, bytes.data(), static_cast<int64_t>(bytes.size()));
}

// The sections in their order, without gaps but for alignment. Null: they are so.
const char* read_rows(std::string_view data, const Head& head, File* file) {
  uint64_t end = sizeof(Head) + sizeof(Section) * head.section_count;
  uint32_t last = 0;
  for (uint32_t k = 0; k < head.section_count; ++k) {
    Section row;
    memcpy(&row, data.data() + sizeof(Head) + sizeof(Section) * k, sizeof(Section));
    uint64_t at = begin_after(end, row.kind);
    if (row.kind < last || static_cast<uint64_t>(row.at) != at || row.size < 0)
      return "the sections of a saved program are out of order";
    if (at > data.size() || static_cast<uint64_t>(row.size) > data.size() - at) return kCutOff;
    std::string_view section = data.substr(at, row.size);
    if (!is_blank(data.substr(end, at - end)) || sum(section) != row.crc) return kWrongSum;
    file->sections.emplace_back(row.kind, section);
    last = row.kind;
    end = at + section.size();
  }
  return end == data.size() ? nullptr : "the sections of a saved program are not all of it";
}

}  // namespace

std::string_view File::section(SectionKind kind) const {
  for (const auto& [found, section] : sections)
    if (found == kind) return section;
  return {};
}

bool open(std::string_view data, File* file, std::string* problem) {
  auto refused = [&](const std::string& why) {
    *problem = why;
    return false;
  };
  Head head;
  if (data.size() < sizeof(head) || data.substr(0, 8) != kMagic)
    return refused("these bytes are no saved program");
  memcpy(&head, data.data(), sizeof(head));
  if (head.version != kVersion)
    return refused(joined({"a saved program has version ", std::to_string(head.version),
                           ", this hloom reads ", std::to_string(kVersion), "; compile it again"}));
  if (head.byte_order != kByteOrder)
    return refused("a saved program is of a machine of another byte order; compile it again");
  uint64_t end = sizeof(Head) + sizeof(Section) * static_cast<uint64_t>(head.section_count);
  if (head.section_count > kMostSections || end > data.size()) return refused(kCutOff);
  std::string_view rows = data.substr(sizeof(Head), end - sizeof(Head));
  if (sum(rows, sum(data.substr(0, kSummedHead))) != head.crc) return refused(kWrongSum);
  if (static_cast<uint64_t>(head.size) != data.size())
    return refused(joined({"a saved program of ", std::to_string(head.size), " bytes has ",
                           std::to_string(data.size()), "; copy it again, or compile it again"}));
  const char* problem_of_rows = read_rows(data, head, file);
  return problem_of_rows == nullptr || refused(problem_of_rows);
}

}  // namespace hloom::saved
