// What processor this is, by what it says of itself: the same questions as a compiler asks it.
#include "host.h"
#include "processor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iterator>

#include "hl.h"
#include "joined.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace {

#if defined(__x86_64__)
struct Answer {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// The answer to one question; zeros where the processor does not know it.
Answer asked(uint32_t leaf, uint32_t part) {
  Answer a;
  if (leaf <= __get_cpuid_max(leaf & 0x80000000u, nullptr)) {
    __cpuid_count(leaf, part, a.eax, a.ebx, a.ecx, a.edx);
  }
  return a;
}

// Which registers the system saves, so that programs may use them; 0 if it may not be asked.
uint64_t saved_registers() {
  if (!(asked(1, 0).ecx & bit_OSXSAVE)) return 0;
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

// Linux lets a process use tile registers only after it has asked, since they make what it saves of
// a thread 8 KiB larger (Documentation/arch/x86/xstate.rst). Asking again changes nothing.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// What a processor has is asked once: under a hypervisor every question takes microseconds.
struct Question {
  uint32_t leaf, part;
};
constexpr Question kQuestions[] = {{1, 0}, {7, 0}, {7, 1}, {0x1e, 1}, {0x24, 0}, {0x80000001u, 0}};

constexpr uint64_t kNone = 0, kYmm = 0x6, kZmm = 0xe6, kTiles = 0x60000, kApx = 0x80000;

struct Known {
  Answer answers[std::size(kQuestions)];
  uint64_t saved = saved_registers();

  Known() {
    for (size_t k = 0; k < std::size(kQuestions); ++k)
      answers[k] = asked(kQuestions[k].leaf, kQuestions[k].part);
    if ((saved & kTiles) == kTiles && !may_use_tiles()) saved &= ~kTiles;
  }
  Answer at(uint32_t leaf, uint32_t part) const {
    for (size_t k = 0; k < std::size(kQuestions); ++k)
      if (kQuestions[k].leaf == leaf && kQuestions[k].part == part) return answers[k];
    return asked(leaf, part);
  }
};

// Where the processor says whether it has a feature, and which registers the system must save for
// it (Intel's manual, 2A, CPUID; AMD's, 3, appendix E).
enum Register : uint8_t { kEax, kEbx, kEcx, kEdx };

struct Bit {
  char feature[20];  // in place: a pointer is 8 bytes, and 24 of relocation
  uint32_t leaf, part;
  Register in;
  uint8_t bit;
  uint64_t saved;
};

constexpr Bit kBits[] = {
    {"sse3", 1, 0, kEcx, 0, kNone},
    {"pclmul", 1, 0, kEcx, 1, kNone},
    {"ssse3", 1, 0, kEcx, 9, kNone},
    {"fma", 1, 0, kEcx, 12, kYmm},
    {"cx16", 1, 0, kEcx, 13, kNone},
    {"sse4.1", 1, 0, kEcx, 19, kNone},
    {"sse4.2", 1, 0, kEcx, 20, kNone},
    {"crc32", 1, 0, kEcx, 20, kNone},
    {"movbe", 1, 0, kEcx, 22, kNone},
    {"popcnt", 1, 0, kEcx, 23, kNone},
    {"aes", 1, 0, kEcx, 25, kNone},
    {"avx", 1, 0, kEcx, 28, kYmm},
    {"f16c", 1, 0, kEcx, 29, kYmm},
    {"cx8", 1, 0, kEdx, 8, kNone},
    {"cmov", 1, 0, kEdx, 15, kNone},
    {"mmx", 1, 0, kEdx, 23, kNone},
    {"fxsr", 1, 0, kEdx, 24, kNone},
    {"sse", 1, 0, kEdx, 25, kNone},
    {"sse2", 1, 0, kEdx, 26, kNone},
    {"bmi", 7, 0, kEbx, 3, kNone},
    {"avx2", 7, 0, kEbx, 5, kYmm},
    {"bmi2", 7, 0, kEbx, 8, kNone},
    {"avx512f", 7, 0, kEbx, 16, kZmm},
    {"avx512dq", 7, 0, kEbx, 17, kZmm},
    {"adx", 7, 0, kEbx, 19, kNone},
    {"avx512ifma", 7, 0, kEbx, 21, kZmm},
    {"avx512cd", 7, 0, kEbx, 28, kZmm},
    {"sha", 7, 0, kEbx, 29, kNone},
    {"avx512bw", 7, 0, kEbx, 30, kZmm},
    {"avx512vl", 7, 0, kEbx, 31, kZmm},
    {"avx512vbmi", 7, 0, kEcx, 1, kZmm},
    {"avx512vbmi2", 7, 0, kEcx, 6, kZmm},
    {"gfni", 7, 0, kEcx, 8, kNone},
    {"vaes", 7, 0, kEcx, 9, kYmm},
    {"vpclmulqdq", 7, 0, kEcx, 10, kYmm},
    {"avx512vnni", 7, 0, kEcx, 11, kZmm},
    {"avx512bitalg", 7, 0, kEcx, 12, kZmm},
    {"avx512vpopcntdq", 7, 0, kEcx, 14, kZmm},
    {"avx512vp2intersect", 7, 0, kEdx, 8, kZmm},
    {"amx-bf16", 7, 0, kEdx, 22, kTiles},
    {"avx512fp16", 7, 0, kEdx, 23, kZmm},
    {"amx-tile", 7, 0, kEdx, 24, kTiles},
    {"amx-int8", 7, 0, kEdx, 25, kTiles},
    {"sha512", 7, 1, kEax, 0, kYmm},
    {"sm3", 7, 1, kEax, 1, kYmm},
    {"sm4", 7, 1, kEax, 2, kYmm},
    {"avxvnni", 7, 1, kEax, 4, kYmm},
    {"avx512bf16", 7, 1, kEax, 5, kZmm},
    {"cmpccxadd", 7, 1, kEax, 7, kNone},
    {"amx-fp16", 7, 1, kEax, 21, kTiles},
    {"avxifma", 7, 1, kEax, 23, kYmm},
    {"movrs", 7, 1, kEax, 31, kNone},
    {"avxvnniint8", 7, 1, kEdx, 4, kYmm},
    {"avxneconvert", 7, 1, kEdx, 5, kYmm},
    {"amx-complex", 7, 1, kEdx, 8, kTiles},
    {"avxvnniint16", 7, 1, kEdx, 10, kYmm},
    {"egpr", 7, 1, kEdx, 21, kApx},
    {"push2pop2", 7, 1, kEdx, 21, kApx},
    {"ppx", 7, 1, kEdx, 21, kApx},
    {"ndd", 7, 1, kEdx, 21, kApx},
    {"ccmp", 7, 1, kEdx, 21, kApx},
    {"nf", 7, 1, kEdx, 21, kApx},
    {"cf", 7, 1, kEdx, 21, kApx},
    {"zu", 7, 1, kEdx, 21, kApx},
    {"amx-fp8", 0x1e, 1, kEax, 4, kTiles},
    {"amx-tf32", 0x1e, 1, kEax, 6, kTiles},
    {"amx-avx512", 0x1e, 1, kEax, 7, kTiles},
    {"amx-movrs", 0x1e, 1, kEax, 8, kTiles},
    {"sahf", 0x80000001u, 0, kEcx, 0, kNone},
    {"lzcnt", 0x80000001u, 0, kEcx, 5, kNone},
    {"sse4a", 0x80000001u, 0, kEcx, 6, kNone},
    {"prfchw", 0x80000001u, 0, kEcx, 8, kNone},
    {"xop", 0x80000001u, 0, kEcx, 11, kYmm},
    {"fma4", 0x80000001u, 0, kEcx, 16, kYmm},
    {"tbm", 0x80000001u, 0, kEcx, 21, kNone},
    {"64bit", 0x80000001u, 0, kEdx, 29, kNone},
};

int32_t has_feature(std::string_view feature) {
  static const Known known;
  uint64_t saved = known.saved;
  if (feature == "avx10.1" || feature == "avx10.2") {
    bool is_there = known.at(7, 1).edx >> 19 & 1 && (saved & kZmm) == kZmm;
    uint32_t version = known.at(0x24, 0).ebx & 0xff;
    return is_there && version >= (feature == "avx10.2" ? 2u : 1u);
  }
  for (const Bit& b : kBits) {
    if (feature != b.feature) continue;
    Answer a = known.at(b.leaf, b.part);
    uint32_t word = b.in == kEax ? a.eax : b.in == kEbx ? a.ebx : b.in == kEcx ? a.ecx : a.edx;
    return word >> b.bit & 1 && (saved & b.saved) == b.saved;
  }
  return -1;
}
#elif defined(__aarch64__)
// The bits that Linux gives every process (Documentation/arch/arm64/elf_hwcaps.rst).
struct Bit {
  char feature[10];
  uint8_t word, bit;  // word 0 is AT_HWCAP, 1 is AT_HWCAP2
};

constexpr Bit kBits[] = {
    {"fp-armv8", 0, 0}, {"neon", 0, 1},       {"aes", 0, 3},       {"sha2", 0, 6},
    {"crc", 0, 7},      {"lse", 0, 8},        {"fullfp16", 0, 10}, {"rdm", 0, 12},
    {"jsconv", 0, 13},  {"complxnum", 0, 14}, {"rcpc", 0, 15},     {"sha3", 0, 17},
    {"sm4", 0, 19},     {"dotprod", 0, 20},   {"sve", 0, 22},      {"fp16fml", 0, 23},
    {"flagm", 0, 27},   {"sve2", 1, 1},       {"i8mm", 1, 13},     {"bf16", 1, 14},
};

int32_t has_feature(std::string_view feature) {
  for (const Bit& b : kBits)
    if (feature == b.feature) return getauxval(b.word == 0 ? AT_HWCAP : AT_HWCAP2) >> b.bit & 1;
  return -1;
}
#else
int32_t has_feature(std::string_view) { return -1; }
#endif

// Names that LLVM has beside instructions, which say what is quick on a processor.
bool is_preference(std::string_view feature) {
  for (std::string_view begin : {"prefer-", "tune-", "slow-", "fast-", "false-deps-"})
    if (feature.starts_with(begin)) return true;
  return false;
}

}  // namespace

namespace hloom {

std::string_view host_architecture() {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

std::string missing_features(std::string_view architecture, std::string_view features) {
  if (architecture == "amd64") architecture = "x86_64";
  if (architecture == "arm64") architecture = "aarch64";
  if (architecture != host_architecture())
    return joined({"architecture ", architecture, " (this is ", host_architecture(), ")"});
  std::string missing;
  while (!features.empty()) {
    std::string_view feature = features.substr(0, features.find(','));
    features.remove_prefix(feature.size() + (feature.size() < features.size()));
    if (is_preference(feature)) continue;
    int32_t has = has_feature(feature);
    if (has == 1) continue;
    if (!missing.empty()) missing += ", ";
    missing += feature;
    if (has < 0) missing += " (not known here)";
  }
  return missing;
}

std::string arch_mismatch(std::string_view missing) {
  constexpr std::string_view kWord = "architecture ", kHere = " (this is ";
  if (!missing.starts_with(kWord)) return "";
  size_t at = missing.find(kHere);
  std::string_view expected = missing.substr(kWord.size(), at - kWord.size());
  std::string_view got = missing.substr(at + kHere.size());
  got.remove_suffix(1);  // the bracket
  return joined({"Target arch mismatch expected ", expected, " got ", got});
}

bool is_tried_all_the_same(std::string_view missing) {
  const char* asked = getenv("HLOOM_MISSING_FEATURES");
  return asked != nullptr && std::string_view(asked) == "warn" &&
         !missing.starts_with("architecture ");
}

}  // namespace hloom

// Writes which of these features (LLVM's names, a comma between two) this processor lacks, or
// `architecture NAME` where the code is for another one; nothing where it has all. Returns the
// length of the whole.
HL_API int64_t hl_missing_features(const char* architecture, const char* features, char* text,
                                   int64_t size) {
  std::string missing = hloom::missing_features(architecture, features);
  if (size > 0) snprintf(text, size, "%s", missing.c_str());
  return static_cast<int64_t>(missing.size());
}

// 1: this processor has the feature; 0: it has not; -1: it is not known what that is.
HL_API int32_t hl_has_feature(const char* feature) { return has_feature(feature); }

// Fills words with the processor's name (12 words of text) and then all that says which
// instructions it has. Returns how many words there are, 0 where it cannot be asked; no more than
// count are written. What differs from core to core of one processor is left out.
HL_API int32_t hl_processor(uint32_t* words, int32_t count) {
  int32_t size = 0;
#if defined(__x86_64__)
  auto put = [&](uint32_t word) {
    if (size < count) words[size] = word;
    ++size;
  };
  auto put_all = [&](Answer a) {
    put(a.eax);
    put(a.ebx);
    put(a.ecx);
    put(a.edx);
  };
  for (uint32_t leaf = 0x80000002u; leaf <= 0x80000004u; ++leaf) put_all(asked(leaf, 0));
  put_all(asked(0, 0));
  Answer first = asked(1, 0);
  first.ebx = 0;  // the number of this core
  put_all(first);
  put_all(asked(7, 0));
  put_all(asked(7, 1));
  put_all(asked(7, 2));
  put(asked(0xd, 1).eax);
  put_all(asked(0x14, 0));
  put_all(asked(0x19, 0));
  put_all(asked(0x1d, 1));
  put_all(asked(0x1e, 0));
  put_all(asked(0x24, 0));
  Answer extended = asked(0x80000001u, 0);
  extended.ebx = 0;
  put_all(extended);
  put(asked(0x80000008u, 0).ebx);
  uint64_t saved = saved_registers();
  put(static_cast<uint32_t>(saved));
  put(static_cast<uint32_t>(saved >> 32));
#else
  (void)words;
  (void)count;
#endif
  return size;
}
