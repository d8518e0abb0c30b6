// Sealed containers: the frame of every saved form (hloom/program/container.py says what it is).
#ifndef HLOOM_RUNTIME_CONTAINER_H
#define HLOOM_RUNTIME_CONTAINER_H

#include <stddef.h>
#include <stdint.h>

#include <string>
#include <string_view>
#include <vector>

namespace hloom {

// The sum that zlib.crc32 takes: any change within 32 bits, wherever, changes it.
uint32_t crc32(uint32_t crc, const char* data, size_t size);

// A frame to open: how it begins, its version, how many sections it has, what to call it.
struct ContainerKind {
  std::string_view magic;
  uint32_t version;
  size_t sections;
  const char* what;
};

// The sections of a container, each as long as it was made and with the checksum it was given
// (those that are containers themselves are not summed twice). Empty: `problem` says why not.
std::vector<std::string_view> open_container(std::string_view data, const ContainerKind& kind,
                                             std::string* problem);

}  // namespace hloom

#endif
