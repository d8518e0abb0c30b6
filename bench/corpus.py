"""Where real programs are: `$HLOOM_CORPUS`, or shared/corpus beside the checkout, if at all."""

from __future__ import annotations

import os
from pathlib import Path

CORPUS = Path(os.environ.get("HLOOM_CORPUS") or Path(__file__).parents[2] / "shared" / "corpus")
