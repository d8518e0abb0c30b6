"""Puts the page together: python make_page.py site, then python -m http.server -d site.

The network becomes a library of WebAssembly with its weights inside; `hloom package` writes the
module that calls it. Takes jax and 'hloom[cross]'.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
from network import scores

import hloom.jax
from hloom.aot.package import package

here, folder = Path(__file__).parent, Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
data = np.load(here / "weights.npz")
weights = {k: data[k].astype(np.float32) for k in data if k not in ("pictures", "labels")}

hloom.jax.export_c(
    lambda picture: scores(weights, picture),
    np.zeros((1, 8, 8), np.float32),
    path=folder / "digits.wasm",
    header_path=folder / "digits.h",
    argument_names=["picture"],
    result_names=["scores"],
    options={"target_triple": "wasm32-unknown-unknown"},
)
package(folder / "digits.wasm", folder / "digits.h", folder, ["javascript"])
samples = {"pictures": data["pictures"].reshape(-1, 64).tolist(), "labels": data["labels"].tolist()}
(folder / "samples.json").write_text(json.dumps(samples))
shutil.copy(here / "index.html", folder)
print(f"wrote {folder}: digits.wasm has {(folder / 'digits.wasm').stat().st_size} bytes")
