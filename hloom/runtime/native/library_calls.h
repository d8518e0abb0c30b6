// Custom calls that HLO itself knows by name.
#pragma once
#include "linalg_calls.h"

namespace hloom {

// Ends with a null name.
const BuiltIn* library_calls();

}  // namespace hloom
