"""examples/browser: a network in WebAssembly, in a page that a real browser opens, and in Node."""

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from hloom.base.guarding import GUARDING

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "browser"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
    " --disable-background-networking --disable-component-update --window-size=900,700"
).split()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ziglang") is None, reason="no linker: hloom[cross]"),
    pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder that make_page.py writes."""
    pytest.importorskip("jax")
    folder = tmp_path_factory.mktemp("site")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    words = [sys.executable, "-B", str(EXAMPLE / "make_page.py"), str(folder)]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


def expected(count):
    """The scores of the first pictures, by the definitions of the operations in numpy."""
    data = np.load(EXAMPLE / "weights.npz")
    w = {k: data[k].astype(np.float64) for k in data}
    x = data["pictures"][:count].astype(np.float64)[..., None] / 16

    def convolution(x, kernel, stride=1):
        """Depthwise where the kernel has one channel in and the picture several."""
        size, n = kernel.shape[0], x.shape[1]
        low = max(0, (-(-n // stride) - 1) * stride + size - n) // 2
        padded = np.pad(x, ((0, 0), (low, size), (low, size), (0, 0)))
        places = range(0, n, stride)
        rows = [[padded[:, i : i + size, j : j + size] for j in places] for i in places]
        windows = np.array(rows).transpose(2, 0, 1, 3, 4, 5)
        if kernel.shape[2] == 1 and x.shape[3] > 1:
            return np.einsum("nijhwc,hwc->nijc", windows, kernel[:, :, 0])
        return np.einsum("nijhwc,hwco->nijo", windows, kernel)

    x = np.maximum(convolution(x, w["first"]) + w["first_bias"], 0)
    for k, stride in enumerate((2, 1)):
        x = convolution(x, w[f"depth{k}"], stride)
        x = np.maximum(convolution(x, w[f"point{k}"]) + w[f"bias{k}"], 0)
    return x.mean((1, 2)) @ w["dense"] + w["dense_bias"], data["labels"]


def test_the_library_in_node(site):
    if shutil.which("node") is None:
        pytest.skip("no node")
    script = """
import { readFileSync } from "node:fs";
import { load } from "./javascript/digits.mjs";
const digits = await load(readFileSync("lib/digits.wasm"));
const { pictures } = JSON.parse(readFileSync("samples.json"));
const scores = (p) => Array.from(digits({ picture: p.map((v) => v / 16) }).scores);
console.log(JSON.stringify(pictures.map(scores)));
"""
    words = ["node", "--input-type=module", "-e", script]
    done = subprocess.run(words, cwd=site, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    scores, labels = expected(200)
    np.testing.assert_allclose(np.array(json.loads(done.stdout)), scores, rtol=1e-4, atol=1e-4)
    assert (scores.argmax(1) == labels).mean() > 0.95


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_the_page_in_a_browser(site, tmp_path):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/index.html"
        picture = tmp_path / "page.png"
        flags = [*FLAGS, f"--user-data-dir={tmp_path}/profile", "--virtual-time-budget=20000"]
        words = [str(CHROMIUM), *flags, "--dump-dom", f"--screenshot={picture}", address]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    finally:
        server.shutdown()
    page = done.stdout
    assert 'data-done="yes"' in page, page[:2000] + done.stderr[-2000:]
    scores, labels = expected(200)
    right = int((scores.argmax(1) == labels).sum())
    assert f"Right on {right} of 200 pictures" in page
    assert f"This is a {scores[0].argmax()}." in page
    assert re.search(r"\d+ µs a picture", page)
    assert page.count(" %</div>") == 10
