// Opens saved programs (hloom/program/saved_form.py says what they are).
#ifndef HLOOM_RUNTIME_SAVED_H
#define HLOOM_RUNTIME_SAVED_H

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saved_form.h"

namespace hloom::saved {

// The sections of a file, each as it was sealed.
struct File {
  std::vector<std::pair<uint32_t, std::string_view>> sections;
  // The first section of a kind; empty: there is none.
  std::string_view section(SectionKind kind) const;
};

// False: `problem` says why these bytes are no saved program.
bool open(std::string_view data, File* file, std::string* problem);

// Reads the records of a section that begins at a multiple of 8. What does not stand in it is empty,
// and makes `is_whole` false.
class Reader {
 public:
  explicit Reader(std::string_view section) : data_(section) {}

  template <typename T>
  const T* records(Range place) {
    return reinterpret_cast<const T*>(piece(place, sizeof(T), alignof(T)));
  }
  // The record that the section begins with; null: it is too short.
  template <typename T>
  const T* first() {
    return records<T>({0, 1});
  }
  const int64_t* numbers(Range place) { return records<int64_t>(place); }
  std::string_view text(Range place) {
    const char* at = piece(place, 1, 1);
    return at == nullptr ? std::string_view() : std::string_view(at, place.count);
  }
  bool is_whole = true;

 private:
  const char* piece(Range place, uint64_t size, uint64_t alignment) {
    uint64_t room = data_.size(), at = static_cast<uint64_t>(place.at);
    if (place.at >= 0 && place.count >= 0 && at <= room && at % alignment == 0 &&
        static_cast<uint64_t>(place.count) <= (room - at) / size)
      return data_.data() + at;
    is_whole = false;
    return nullptr;
  }

  std::string_view data_;
};

}  // namespace hloom::saved

#endif
