// Elements narrower than a byte: several in a byte, or a byte each.
#pragma once
#include "hl.h"

namespace hloom {

// Elements of 2 or 4 bits that each have a byte, several to a byte, and back: the first in the
// lowest bits, the last byte filled up with zeros.
void pack_elements(char* to, const char* from, int64_t count, int bits);
void unpack_elements(char* to, const char* from, int64_t count, int bits);

}  // namespace hloom
