// Ties objects together in memory; see linker.cc.
#ifndef HLOOM_RUNTIME_LINKER_H
#define HLOOM_RUNTIME_LINKER_H

#include <string>
#include <unordered_map>
#include <vector>

#include "hl.h"
#include "object.h"

// Loaded objects: where they are, and the addresses of what they define.
struct hl_loaded {
  uint8_t* base = nullptr;
  uint64_t size = 0;
  std::unordered_map<std::string, uint64_t> symbols;
};

namespace hloom {

#if defined(__aarch64__)
inline constexpr uint16_t kHostMachine = EM_AARCH64;
#else
inline constexpr uint16_t kHostMachine = EM_X86_64;
#endif

// A symbol that the caller provides. Data is never reached through a jump.
struct Given {
  const char* name;
  uint64_t address;
  bool is_data;
};

// The objects, parsed before, in memory and ready to run; null with the problems told.
hl_loaded* link(std::vector<Object>* objects, uint16_t machine, const std::vector<Given>& given,
                Problems* problems);

// The address of a C function that LLVM itself calls, or of an exported function of this library;
// 0 for any other name.
uint64_t own_function(std::string_view name);

}  // namespace hloom

#endif
