// The checksum of saved programs.
#ifndef HLOOM_RUNTIME_CRC32_H
#define HLOOM_RUNTIME_CRC32_H

#include "hl.h"

// The sum that zlib.crc32 takes, of `crc` and these bytes: any change within 32 bits changes it.
HL_API uint32_t hl_crc32(uint32_t crc, const void* data, int64_t size);

#endif
