// An ELF relocatable object, read with every offset and index checked.
#ifndef HLOOM_RUNTIME_OBJECT_H
#define HLOOM_RUNTIME_OBJECT_H

#include <elf.h>
#include <stdint.h>

#include <string>
#include <string_view>
#include <vector>

namespace hloom {

// What is wrong with the input, one line each; after some, only their number grows.
class Problems {
 public:
  __attribute__((format(printf, 2, 3))) void add(const char* format, ...);
  bool any() const { return count_ != 0; }
  std::string text() const;

 private:
  static constexpr int kMost = 40;
  std::string lines_;
  int count_ = 0;
};

enum class Segment : uint8_t { kNone, kText, kConstants, kData };

struct Section {
  Elf64_Shdr header;
  std::string_view name;
  Segment segment = Segment::kNone;
  uint64_t offset = 0;  // in the mapping

  bool is_zero() const { return header.sh_type == SHT_NOBITS; }
};

// The parts of one object that are linked. Its bytes belong to the caller.
struct Object {
  const uint8_t* data;
  uint64_t size;
  std::string name;
  std::string_view module;  // the LLVM module it was made of; empty where it does not say
  uint16_t machine = 0;
  std::vector<Section> sections;
  std::vector<Elf64_Sym> symbols;
  const char* strings = nullptr;  // names of symbols; ends with a zero
  uint64_t strings_size = 0;

  // False, with the problems told, if this is not an object that can be loaded.
  bool parse(Problems* problems);

  std::string_view symbol_name(const Elf64_Sym& symbol) const {
    return std::string_view(strings + symbol.st_name);
  }
  const uint8_t* bytes(const Section& section) const { return data + section.header.sh_offset; }
  // Copies relocation `index` of a section of relocations.
  Elf64_Rela relocation(const Section& section, uint64_t index) const;

 private:
  bool parse_sections(Problems* problems);
  bool parse_symbols(Problems* problems);
  bool classify(Section* section, Problems* problems);
  bool is_inside(uint64_t offset, uint64_t bytes) const {
    return offset <= size && bytes <= size - offset;
  }
  // A table of strings: inside the file and ended by a zero.
  bool is_strings(const Section& section) const;
};

}  // namespace hloom

#endif
