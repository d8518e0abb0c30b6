// Reads ELF relocatable objects. Nothing in the bytes is believed before it has been checked: they
// may come from a cache on disk.
#include "object.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

namespace hloom {

namespace {

// More than any object asks for: a page, so that sections need no more than the mapping's own.
constexpr uint64_t kMostAlignment = 4096;
constexpr uint64_t kMostSectionBytes = uint64_t{1} << 30;
constexpr uint32_t kUnwind = 0x70000001;  // SHT_X86_64_UNWIND

template <typename T>
T read(const uint8_t* at) {
  T value;
  memcpy(&value, at, sizeof(T));
  return value;
}

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

}  // namespace

void Problems::add(const char* format, ...) {
  if (++count_ > kMost) return;
  char line[512];
  va_list list;
  va_start(list, format);
  vsnprintf(line, sizeof(line), format, list);
  va_end(list);
  if (!lines_.empty()) lines_ += '\n';
  lines_ += line;
}

std::string Problems::text() const {
  if (count_ <= kMost) return lines_;
  return lines_ + "\nand " + std::to_string(count_ - kMost) + " more";
}

bool Object::parse(Problems* problems) {
  const char* what = name.c_str();
  if (data == nullptr || size < sizeof(Elf64_Ehdr) || memcmp(data, ELFMAG, SELFMAG) != 0) {
    problems->add("%s: not an ELF object", what);
    return false;
  }
  Elf64_Ehdr header = read<Elf64_Ehdr>(data);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    problems->add("%s: not a 64-bit little-endian object", what);
    return false;
  }
  if (header.e_type != ET_REL) {
    problems->add("%s: not a relocatable object (e_type is %u)", what, header.e_type);
    return false;
  }
  machine = header.e_machine;
  if (machine != EM_X86_64 && machine != EM_AARCH64) {
    problems->add("%s: for machine %u; x86-64 (62) and AArch64 (183) are known", what, machine);
    return false;
  }
  return parse_sections(problems) && parse_symbols(problems);
}

bool Object::is_strings(const Section& section) const {
  const Elf64_Shdr& header = section.header;
  return header.sh_type == SHT_STRTAB && header.sh_size > 0 &&
         data[header.sh_offset + header.sh_size - 1] == 0;
}

bool Object::parse_sections(Problems* problems) {
  const char* what = name.c_str();
  Elf64_Ehdr header = read<Elf64_Ehdr>(data);
  uint64_t count = header.e_shnum;
  if (header.e_shentsize != sizeof(Elf64_Shdr) || !is_inside(header.e_shoff, sizeof(Elf64_Shdr))) {
    problems->add("%s: its table of sections lies outside the file", what);
    return false;
  }
  // With 65280 sections and more the number stands in the first of them.
  if (count == 0) count = read<Elf64_Shdr>(data + header.e_shoff).sh_size;
  if (count > size / sizeof(Elf64_Shdr) || !is_inside(header.e_shoff, count * sizeof(Elf64_Shdr))) {
    problems->add("%s: its table of sections lies outside the file", what);
    return false;
  }
  sections.resize(count);
  for (uint64_t i = 0; i < count; ++i) {
    Section& section = sections[i];
    section.header = read<Elf64_Shdr>(data + header.e_shoff + i * sizeof(Elf64_Shdr));
    bool has_bytes = section.header.sh_type != SHT_NOBITS && section.header.sh_type != SHT_NULL;
    if (has_bytes && !is_inside(section.header.sh_offset, section.header.sh_size)) {
      problems->add("%s: section %llu lies outside the file", what,
                    static_cast<unsigned long long>(i));
      return false;
    }
  }
  uint64_t names = header.e_shstrndx;
  if (names == SHN_XINDEX && count > 0) names = sections[0].header.sh_link;
  if (names >= count || !is_strings(sections[names])) {
    problems->add("%s: it has no names of sections", what);
    return false;
  }
  const Elf64_Shdr& table = sections[names].header;
  for (Section& section : sections) {
    if (section.header.sh_name >= table.sh_size) {
      problems->add("%s: a section's name lies outside its table", what);
      return false;
    }
    section.name = reinterpret_cast<const char*>(data + table.sh_offset + section.header.sh_name);
    if (!classify(&section, problems)) return false;
  }
  return true;
}

bool Object::classify(Section* section, Problems* problems) {
  const Elf64_Shdr& header = section->header;
  const char* what = name.c_str();
  int length = static_cast<int>(section->name.size() < 100 ? section->name.size() : 100);
  const char* called = section->name.data();
  if (header.sh_type == SHT_RELA && header.sh_entsize != sizeof(Elf64_Rela)) {
    problems->add("%s: relocations %.*s have a strange size", what, length, called);
    return false;
  }
  if (header.sh_type == SHT_REL) {
    problems->add("%s: relocations %.*s have no addends", what, length, called);
    return false;
  }
  if (!(header.sh_flags & SHF_ALLOC)) return true;
  if (header.sh_flags & SHF_TLS) {
    problems->add("%s: section %.*s is thread-local, which is not supported", what, length, called);
    return false;
  }
  if (header.sh_type == SHT_INIT_ARRAY || header.sh_type == SHT_FINI_ARRAY ||
      header.sh_type == SHT_PREINIT_ARRAY || starts_with(section->name, ".ctors") ||
      starts_with(section->name, ".dtors")) {
    problems->add("%s: section %.*s holds constructors, which are not supported", what, length,
                  called);
    return false;
  }
  // Nothing is thrown through kernels, so nobody unwinds them.
  if (header.sh_type == kUnwind || starts_with(section->name, ".eh_frame")) return true;
  if (header.sh_type != SHT_PROGBITS && header.sh_type != SHT_NOBITS) return true;
  uint64_t alignment = header.sh_addralign;
  if ((alignment & (alignment - 1)) != 0 || alignment > kMostAlignment) {
    problems->add("%s: section %.*s is to be aligned to %llu; powers of 2 up to 4096 can be", what,
                  length, called, static_cast<unsigned long long>(alignment));
    return false;
  }
  if (header.sh_size > kMostSectionBytes) {
    problems->add("%s: section %.*s has %llu bytes; 2^30 are the most", what, length, called,
                  static_cast<unsigned long long>(header.sh_size));
    return false;
  }
  bool writable = header.sh_flags & SHF_WRITE;
  // .data.rel.ro is written by relocations alone.
  if (starts_with(section->name, ".data.rel.ro")) writable = false;
  if ((header.sh_flags & SHF_EXECINSTR) && (writable || section->is_zero())) {
    problems->add("%s: section %.*s is writable code", what, length, called);
    return false;
  }
  section->segment = (header.sh_flags & SHF_EXECINSTR) ? Segment::kText
                     : writable || section->is_zero()  ? Segment::kData
                                                       : Segment::kConstants;
  return true;
}

bool Object::parse_symbols(Problems* problems) {
  const char* what = name.c_str();
  const Section* table = nullptr;
  for (const Section& section : sections) {
    if (section.header.sh_type != SHT_SYMTAB) continue;
    if (table != nullptr) {
      problems->add("%s: it has two tables of symbols", what);
      return false;
    }
    table = &section;
  }
  if (table == nullptr) return true;
  const Elf64_Shdr& header = table->header;
  if (header.sh_entsize != sizeof(Elf64_Sym) || header.sh_link >= sections.size() ||
      !is_strings(sections[header.sh_link])) {
    problems->add("%s: its table of symbols is malformed", what);
    return false;
  }
  const Elf64_Shdr& names = sections[header.sh_link].header;
  strings = reinterpret_cast<const char*>(data + names.sh_offset);
  strings_size = names.sh_size;
  symbols.resize(header.sh_size / sizeof(Elf64_Sym));
  for (uint64_t i = 0; i < symbols.size(); ++i) {
    Elf64_Sym& symbol = symbols[i];
    symbol = read<Elf64_Sym>(data + header.sh_offset + i * sizeof(Elf64_Sym));
    if (symbol.st_name >= strings_size) {
      problems->add("%s: the name of symbol %llu lies outside its table", what,
                    static_cast<unsigned long long>(i));
      return false;
    }
    const char* called = strings + symbol.st_name;
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FILE) module = called;
    uint16_t index = symbol.st_shndx;
    if (index == SHN_UNDEF || index == SHN_ABS || index == SHN_COMMON) continue;
    if (index >= SHN_LORESERVE || index >= sections.size()) {
      problems->add("%s: symbol %.100s lies in section %u, which is not there", what, called,
                    index);
      return false;
    }
    // The end of a section is a fair address, what lies behind it is not.
    if (sections[index].segment != Segment::kNone &&
        symbol.st_value > sections[index].header.sh_size) {
      problems->add("%s: symbol %.100s lies outside its section", what, called);
      return false;
    }
  }
  return true;
}

Elf64_Rela Object::relocation(const Section& section, uint64_t index) const {
  return read<Elf64_Rela>(bytes(section) + index * sizeof(Elf64_Rela));
}

}  // namespace hloom
