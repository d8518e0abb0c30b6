// The custom calls JAX makes for linear algebra, as handlers.
#pragma once
#include "custom_call.h"

namespace hloom {

struct BuiltIn {
  const char* name;
  hl_handler handler;
};

// Ends with a null name.
const BuiltIn* linalg_calls();

}  // namespace hloom
