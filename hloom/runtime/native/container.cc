// Opens sealed containers. Nothing in the bytes is believed before it has been checked.
#include "container.h"

#include <string.h>

#include <array>

namespace hloom {
namespace {

constexpr size_t kMagicBytes = 8;
constexpr size_t kFixedBytes = 16;  // magic, version, number of sections
constexpr size_t kRowBytes = 16;    // size, checksum, flags of a section
constexpr size_t kSumBytes = 4;     // of all that stands before it
constexpr size_t kAlignment = 64;
constexpr uint32_t kSealedItself = 1;

template <typename T>
T read(const char* at) {
  T value;
  memcpy(&value, at, sizeof(T));
  return value;
}

// The first byte from `at` on at which a section may begin.
size_t aligned(size_t at) { return (at + kAlignment - 1) & ~(kAlignment - 1); }

bool is_blank(std::string_view bytes) { return bytes.find_first_not_of('\0') == bytes.npos; }

}  // namespace

uint32_t crc32(uint32_t crc, const char* data, size_t size) {
  static const auto tables = [] {  // eight bytes at a time
    std::array<std::array<uint32_t, 256>, 8> made{};
    for (uint32_t k = 0; k < 256; ++k) {
      uint32_t c = k;
      for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
      made[0][k] = c;
    }
    for (int t = 1; t < 8; ++t)
      for (int k = 0; k < 256; ++k)
        made[t][k] = made[t - 1][k] >> 8 ^ made[0][made[t - 1][k] & 255];
    return made;
  }();
  crc = ~crc;
  for (; size >= 8; data += 8, size -= 8) {
    uint64_t word = read<uint64_t>(data) ^ crc;
    crc = 0;
    for (int t = 0; t < 8; ++t) crc ^= tables[7 - t][word >> 8 * t & 255];
  }
  for (; size > 0; ++data, --size)
    crc = tables[0][(crc ^ static_cast<uint8_t>(*data)) & 255] ^ crc >> 8;
  return ~crc;
}

std::vector<std::string_view> open_container(std::string_view data, const ContainerKind& kind,
                                             std::string* problem) {
  auto refused = [&](const std::string& why) {
    *problem = why;
    return std::vector<std::string_view>();
  };
  const std::string what = kind.what;
  if (data.size() < kFixedBytes || data.substr(0, kMagicBytes) != kind.magic)
    return refused("these bytes are no " + what);
  uint32_t version = read<uint32_t>(data.data() + kMagicBytes);
  if (version != kind.version)
    return refused("a " + what + " has version " + std::to_string(version) + ", this hloom reads " +
                   std::to_string(kind.version) + "; compile it again");
  size_t sum_at = kFixedBytes + kRowBytes * kind.sections;
  if (data.size() < sum_at + kSumBytes) return refused("a " + what + " is cut off");
  if (read<uint32_t>(data.data() + kMagicBytes + 4) != kind.sections ||
      crc32(0, data.data(), sum_at) != read<uint32_t>(data.data() + sum_at))
    return refused("the checksum of a " + what + " is wrong");
  std::vector<std::string_view> sections;
  size_t end = sum_at + kSumBytes;
  for (size_t k = 0; k < kind.sections; ++k) {
    const char* row = data.data() + kFixedBytes + kRowBytes * k;
    uint64_t size = read<uint64_t>(row);
    size_t begin = aligned(end);
    if (begin > data.size() || size > data.size() - begin)
      return refused("a " + what + " is cut off");
    std::string_view section = data.substr(begin, size);
    bool is_sealed = read<uint32_t>(row + 12) & kSealedItself;
    if (!is_blank(data.substr(end, begin - end)) ||
        (!is_sealed && crc32(0, section.data(), size) != read<uint32_t>(row + 8)))
      return refused("the checksum of a " + what + " is wrong");
    sections.push_back(section);
    end = begin + size;
  }
  if (end != data.size()) return refused("a " + what + " is longer than it says");
  return sections;
}

}  // namespace hloom
