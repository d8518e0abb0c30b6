// Links relocatable objects: places their sections in one mapping, ties their symbols together.
//
// Why our own: a program is hundreds of small objects from a cache, and must start in milliseconds,
// on machines without LLVM or a linker.
//
// The mapping is code and stubs, then constants and the table of addresses (GOT), then data. It is
// written first and given its rights afterwards, so that nothing is ever writable and executable.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "linker.h"
#include "relocate.h"

namespace hloom {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 31;  // what 32-bit distances reach

// The largest page that the system may have: rights change at its boundaries.
constexpr uint64_t kPage = kHostMachine == EM_AARCH64 ? 65536 : 4096;

// Something outside of the objects.
struct External {
  uint64_t address = 0;
  uint64_t stub = 0;  // its offset in the mapping, plus 1; 0 if it is data and can have none
};

struct Definition {
  uint32_t object, symbol;
  bool weak;
  uint64_t common = 0;  // the offset of a common symbol in the mapping
};

// Where a symbol is.
struct Found {
  bool known = false;
  uint64_t address = 0;
  uint64_t stub = 0;  // the address of a jump to it
};

uint64_t aligned(uint64_t value, uint64_t alignment) {
  return alignment < 2 ? value : (value + alignment - 1) & -alignment;
}

class Linker {
 public:
  Linker(std::vector<Object>* objects, uint16_t machine, Problems* problems)
      : objects_(*objects), machine_(machine), problems_(*problems) {}

  void add(const Given& given) { given_[given.name] = {given.address, given.is_data}; }

  // The objects, linked and protected; null with the problems told.
  hl_loaded* link() {
    collect();
    find_externals();
    if (problems_.any() || !place()) return nullptr;
    if (!map()) return nullptr;
    copy();
    apply();
    if (problems_.any() || !protect()) {
      munmap(base_, size_);
      return nullptr;
    }
    hl_loaded* loaded = new (std::nothrow) hl_loaded;
    if (loaded == nullptr) {
      munmap(base_, size_);
      return nullptr;
    }
    loaded->base = base_;
    loaded->size = size_;
    for (const auto& [name, definition] : definitions_)
      if (is_placed(definition)) loaded->symbols.emplace(name, address_of(definition));
    describe_to_perf();
    return loaded;
  }

 private:
  const Elf64_Sym& symbol(const Definition& d) const {
    return objects_[d.object].symbols[d.symbol];
  }

  static bool is_weak(const Elf64_Sym& s) {
    return ELF64_ST_BIND(s.st_info) == STB_WEAK || s.st_shndx == SHN_COMMON;
  }

  // All global definitions, and who defines what twice.
  void collect() {
    for (uint32_t o = 0; o < objects_.size(); ++o) {
      const Object& object = objects_[o];
      for (uint32_t i = 0; i < object.symbols.size(); ++i) {
        const Elf64_Sym& s = object.symbols[i];
        if (s.st_shndx == SHN_UNDEF || ELF64_ST_BIND(s.st_info) == STB_LOCAL) continue;
        int type = ELF64_ST_TYPE(s.st_info);
        std::string_view name = object.symbol_name(s);
        if (type == STT_TLS || type == STT_GNU_IFUNC) {
          problems_.add("%s: symbol %.200s is of a kind that is not supported", object.name.c_str(),
                        name.data());
          continue;
        }
        auto [at, is_new] = definitions_.try_emplace(name, Definition{o, i, is_weak(s)});
        if (is_new) continue;
        Definition& old = at->second;
        const Elf64_Sym& before = symbol(old);
        bool larger =
            s.st_shndx == SHN_COMMON && before.st_shndx == SHN_COMMON && s.st_size > before.st_size;
        if (old.weak && (!is_weak(s) || larger)) {
          old = {o, i, is_weak(s)};
        } else if (!old.weak && !is_weak(s)) {
          problems_.add("symbol %.200s is defined twice: in %s and in %s", name.data(),
                        objects_[old.object].name.c_str(), object.name.c_str());
        }
      }
    }
  }

  // Every name that is used and not defined: where it is, or that it is nowhere.
  void find_externals() {
    std::unordered_map<std::string_view, bool> told;
    for (const Object& object : objects_) {
      for (uint64_t i = 1; i < object.symbols.size(); ++i) {
        const Elf64_Sym& s = object.symbols[i];
        std::string_view name = object.symbol_name(s);
        if (s.st_shndx != SHN_UNDEF || name.empty() || definitions_.count(name) ||
            externals_.count(name))
          continue;
        External external;
        bool is_data = false;
        if (auto given = given_.find(name); given != given_.end()) {
          external.address = given->second.first;
          is_data = given->second.second;
        } else {
          external.address = own_function(name);
        }
        if (external.address == 0) {
          if (ELF64_ST_BIND(s.st_info) != STB_WEAK && told.emplace(name, true).second)
            problems_.add("%s: symbol %.200s is not defined", object.name.c_str(), name.data());
          continue;
        }
        external.stub = is_data ? 0 : 1 + kStubBytes * stubs_++;
        externals_.emplace(name, external);
      }
    }
  }

  bool add_bytes(uint64_t* offset, uint64_t alignment, uint64_t bytes) {
    *offset = aligned(size_, alignment);
    size_ = *offset + bytes;
    if (size_ <= kMostBytes) return true;
    problems_.add("the objects need more than 2 GiB of memory");
    return false;
  }

  bool place_segment(Segment segment) {
    for (Object& object : objects_)
      for (Section& section : object.sections)
        if (section.segment == segment &&
            !add_bytes(&section.offset, section.header.sh_addralign, section.header.sh_size))
          return false;
    return true;
  }

  // Gives every section its offset; counts the entries of the table of addresses.
  bool place() {
    uint64_t unused;
    if (!place_segment(Segment::kText) || !add_bytes(&stubs_at_, 16, stubs_ * kStubBytes) ||
        !add_bytes(&constants_at_, kPage, 0) || !place_segment(Segment::kConstants) ||
        !add_bytes(&got_at_, 8, count_got() * 8) || !add_bytes(&data_at_, kPage, 0) ||
        !place_segment(Segment::kData))
      return false;
    for (auto& [name, definition] : definitions_) {
      const Elf64_Sym& s = symbol(definition);
      if (s.st_shndx != SHN_COMMON) continue;
      uint64_t alignment = s.st_value;  // of a common symbol the value is its alignment
      if ((alignment & (alignment - 1)) != 0 || alignment > kPage || s.st_size > kMostBytes) {
        problems_.add("common symbol %.200s is malformed", name.data());
        return false;
      }
      if (!add_bytes(&definition.common, alignment, s.st_size)) return false;
    }
    return add_bytes(&unused, kPage, size_ == 0 ? kPage : 0);
  }

  // Calls visit(object, section, relocation, kind) for all relocations of sections in the mapping.
  template <typename Visit>
  void each_relocation(Visit visit) {
    for (Object& object : objects_) {
      for (const Section& section : object.sections) {
        if (section.header.sh_type != SHT_RELA) continue;
        uint64_t target = section.header.sh_info;
        if (target >= object.sections.size()) {
          problems_.add("%s: relocations of section %llu, which is not there", object.name.c_str(),
                        static_cast<unsigned long long>(target));
          continue;
        }
        if (object.sections[target].segment == Segment::kNone) continue;
        uint64_t count = section.header.sh_size / sizeof(Elf64_Rela);
        for (uint64_t i = 0; i < count; ++i) {
          Elf64_Rela r = object.relocation(section, i);
          visit(object, object.sections[target], r,
                relocation_kind(machine_, static_cast<uint32_t>(ELF64_R_TYPE(r.r_info))));
        }
      }
    }
  }

  uint64_t count_got() {
    uint64_t count = 0;
    each_relocation([&](Object&, Section&, const Elf64_Rela&, RelocationKind kind) {
      if (kind.bytes == 255) return;
      count += kind.uses_got;
      needs_low_ |= kind.is_low;
    });
    return count;
  }

  bool map() {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_32BIT
    // Objects that were not compiled to be placed anywhere hold 32-bit addresses.
    if (needs_low_) flags |= MAP_32BIT;
#endif
    void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED) {
      problems_.add("no memory for %llu bytes of code%s", static_cast<unsigned long long>(size_),
                    needs_low_ ? " below 2 GiB: compile the objects position-independent" : "");
      return false;
    }
    base_ = static_cast<uint8_t*>(memory);
    return true;
  }

  uint64_t address(uint64_t offset) const { return reinterpret_cast<uint64_t>(base_) + offset; }

  void copy() {
    for (const Object& object : objects_)
      for (const Section& section : object.sections)
        if (section.segment != Segment::kNone && !section.is_zero() && section.header.sh_size != 0)
          memcpy(base_ + section.offset, object.bytes(section), section.header.sh_size);
    for (const auto& [name, external] : externals_)
      if (external.stub != 0)
        write_stub(machine_, base_ + stubs_at_ + external.stub - 1, external.address);
  }

  uint64_t address_of(const Definition& definition) const {
    const Elf64_Sym& s = symbol(definition);
    if (s.st_shndx == SHN_ABS) return s.st_value;
    if (s.st_shndx == SHN_COMMON) return address(definition.common);
    return address(objects_[definition.object].sections[s.st_shndx].offset + s.st_value);
  }

  // Debug sections, and those for unwinding, are not in memory.
  bool is_placed(const Definition& definition) const {
    const Elf64_Sym& s = symbol(definition);
    return s.st_shndx == SHN_ABS || s.st_shndx == SHN_COMMON ||
           objects_[definition.object].sections[s.st_shndx].segment != Segment::kNone;
  }

  Found find(const Object& object, const Elf64_Sym& s) const {
    std::string_view name = object.symbol_name(s);
    bool is_local = ELF64_ST_BIND(s.st_info) == STB_LOCAL;
    if (!is_local || s.st_shndx == SHN_UNDEF) {
      if (auto at = definitions_.find(name); at != definitions_.end()) {
        return {is_placed(at->second), address_of(at->second), 0};
      }
      if (auto at = externals_.find(name); at != externals_.end()) {
        uint64_t stub = at->second.stub == 0 ? 0 : address(stubs_at_ + at->second.stub - 1);
        return {true, at->second.address, stub};
      }
      return {ELF64_ST_BIND(s.st_info) == STB_WEAK, 0, 0};
    }
    if (s.st_shndx == SHN_ABS) return {true, s.st_value, 0};
    if (s.st_shndx == SHN_COMMON) return {};
    const Section& section = object.sections[s.st_shndx];
    if (section.segment == Segment::kNone) return {};
    return {true, address(section.offset + s.st_value), 0};
  }

  // The entry of the table that holds this address.
  uint64_t entry(uint64_t target) {
    auto [at, is_new] = entries_.try_emplace(target, entries_.size());
    uint64_t offset = got_at_ + at->second * 8;
    if (is_new) memcpy(base_ + offset, &target, 8);
    return address(offset);
  }

  void apply() {
    each_relocation(
        [&](Object& object, Section& section, const Elf64_Rela& r, RelocationKind kind) {
          uint32_t type = static_cast<uint32_t>(ELF64_R_TYPE(r.r_info));
          uint64_t index = ELF64_R_SYM(r.r_info);
          const char* what = object.name.c_str();
          if (kind.bytes == 255) {
            problems_.add("%s: relocation of type %u is not known", what, type);
            return;
          }
          if (kind.bytes == 0) return;
          if (section.is_zero() || section.header.sh_size < kind.bytes ||
              r.r_offset > section.header.sh_size - kind.bytes) {
            problems_.add("%s: a relocation lies outside its section", what);
            return;
          }
          if (index >= object.symbols.size()) {
            problems_.add("%s: a relocation names symbol %llu, which is not there", what,
                          static_cast<unsigned long long>(index));
            return;
          }
          const Elf64_Sym& s = object.symbols[index];
          Found found = index == 0 ? Found{true, 0, 0} : find(object, s);
          if (!found.known) {
            problems_.add("%s: a relocation names symbol %.200s, which is nowhere in memory", what,
                          object.symbol_name(s).data());
            return;
          }
          uint64_t at = section.offset + r.r_offset;
          uint64_t value = kind.uses_got ? entry(found.address) : found.address;
          Patch patch{type, base_ + at, address(at), value, r.r_addend};
          Patched done = relocate(machine_, patch);
          if (done == Patched::kTooFar && found.stub != 0 && !kind.uses_got) {
            patch.symbol = found.stub;
            done = relocate(machine_, patch);
          }
          if (done == Patched::kTooFar)
            problems_.add(
                "%s: symbol %.200s is out of reach of a relocation of type %u; compile the "
                "object position-independent",
                what, object.symbol_name(s).data(), type);
          if (done == Patched::kMisaligned)
            problems_.add("%s: symbol %.200s is not aligned as a relocation of type %u needs", what,
                          object.symbol_name(s).data(), type);
        });
  }

  bool protect() {
    char* base = reinterpret_cast<char*>(base_);
    bool ok =
        constants_at_ == 0 ||
        mprotect(base, constants_at_, PROT_READ | (machine_ == kHostMachine ? PROT_EXEC : 0)) == 0;
    if (data_at_ > constants_at_)
      ok = ok && mprotect(base + constants_at_, data_at_ - constants_at_, PROT_READ) == 0;
    if (!ok) problems_.add("the system does not let the code be executable");
    __builtin___clear_cache(base, base + constants_at_);
    return ok;
  }

  // Tells perf, when HLOOM_PERF_MAP=1, what the functions are called, and the objects they are of.
  void describe_to_perf() {
    const char* asked = getenv("HLOOM_PERF_MAP");
    if (asked == nullptr || strcmp(asked, "1") != 0) return;
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    char path[64];
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", static_cast<int>(getpid()));
    pthread_mutex_lock(&mutex);
    // A folder of everybody's: another may have put a link there.
    int descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (FILE* file = descriptor < 0 ? nullptr : fdopen(descriptor, "a")) {
      for (const Object& object : objects_)
        for (const Elf64_Sym& s : object.symbols) {
          if (ELF64_ST_TYPE(s.st_info) != STT_FUNC) continue;
          if (Found found = find(object, s); found.known && s.st_shndx != SHN_UNDEF)
            fprintf(file, "%llx %llx %s [%s]\n", static_cast<unsigned long long>(found.address),
                    static_cast<unsigned long long>(s.st_size), object.symbol_name(s).data(),
                    object.name.c_str());
        }
      fclose(file);
    }
    pthread_mutex_unlock(&mutex);
  }

  std::vector<Object>& objects_;
  uint16_t machine_;
  Problems& problems_;
  std::unordered_map<std::string_view, std::pair<uint64_t, bool>> given_;
  std::unordered_map<std::string_view, Definition> definitions_;
  std::unordered_map<std::string_view, External> externals_;
  std::unordered_map<uint64_t, uint64_t> entries_;
  uint64_t stubs_ = 0;
  uint64_t size_ = 0;
  uint64_t stubs_at_ = 0, constants_at_ = 0, got_at_ = 0, data_at_ = 0;
  bool needs_low_ = false;
  uint8_t* base_ = nullptr;
};

}  // namespace

hl_loaded* link(std::vector<Object>* objects, uint16_t machine, const std::vector<Given>& given,
                Problems* problems) {
  Linker linker(objects, machine, problems);
  for (const Given& one : given) linker.add(one);
  return linker.link();
}

}  // namespace hloom
