"""Whether programs are compiled and run under guard (`HLOOM_GUARD=1`).

Then every array has memory of its own, which ends at a page that nobody may touch: the first byte
out of bounds is a fault that names kernel and array. The native side reads the same variable.
"""

import os

GUARDING = os.environ.get("HLOOM_GUARD", "") not in ("", "0")
"""Read once, as the native side does."""
