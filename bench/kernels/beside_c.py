"""Loops beside the same in C: `python -m bench.kernels.beside_c`, where there is a C compiler.

What is written here is what somebody would write by hand, compiled with `-O3 -march=native` by
`$CC`, gcc or clang. Runs take turns in one process, C on one thread (`taskset -c 0` leaves hloom
one, too); results are compared before.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hloom
from bench.kernels.iterations import iterations
from bench.kernels.loops import Run, arguments
from hloom.compiler import compile_module

SOURCE = r"""
#include <math.h>
#include <stdlib.h>
#include <string.h>

void lorenz(const float *restrict y0, float *restrict y) {
  memcpy(y, y0, 3000 * sizeof *y);
  for (int t = 0; t < 300; t++)
    for (int i = 0; i < 1000; i++) {
      float y3[3] = {y[i], y[1000 + i], y[2000 + i]}, k[4][3], z[3];
      const float at[4] = {0, 0.0005f, 0.0005f, 0.001f};
      for (int s = 0; s < 4; s++) {
        for (int j = 0; j < 3; j++) z[j] = s ? y3[j] + at[s] * k[s - 1][j] : y3[j];
        k[s][0] = 10 * (z[1] - z[0]);
        k[s][1] = z[0] * (28 - z[2]) - z[1];
        k[s][2] = z[0] * z[1] - 8.0f / 3 * z[2];
      }
      for (int j = 0; j < 3; j++)
        y[1000 * j + i] += 0.001f / 6 * (k[0][j] + 2 * k[1][j] + 2 * k[2][j] + k[3][j]);
    }
}

void jacobi(const float *restrict u0, float *restrict u) {
  enum { N = 256 };
  float *v = malloc(N * N * sizeof *v), *a = u, *b = v;
  memcpy(u, u0, N * N * sizeof *u);
  memcpy(v, u0, N * N * sizeof *u);
  for (int t = 0; t < 100; t++) {
    for (int i = 1; i < N - 1; i++)
      for (int j = 1; j < N - 1; j++)
        b[i * N + j] = (a[(i - 1) * N + j] + a[(i + 1) * N + j] + a[i * N + j - 1] +
                        a[i * N + j + 1]) / 4;
    float *c = a;
    a = b, b = c;
  }
  free(v);
}

void warshall(const float *restrict d0, float *restrict d) {
  enum { N = 200 };
  for (int i = 0; i < N * N; i++) d[i] = fabsf(d0[i]);
  for (int k = 0; k < N; k++)
    for (int i = 0; i < N; i++) {
      const float to = d[i * N + k];
      for (int j = 0; j < N; j++) {
        const float through = to + d[k * N + j];
        d[i * N + j] = through < d[i * N + j] ? through : d[i * N + j];
      }
    }
}

void average(const float *restrict x, float *restrict y) {
  float m[256];
  memcpy(m, x, sizeof m);
  for (int t = 0; t < 4096; t++)
    for (int j = 0; j < 256; j++) y[t * 256 + j] = m[j] = 0.9f * m[j] + 0.1f * x[t * 256 + j];
}

void mandelbrot(const float *restrict a, const float *restrict b, float *restrict x,
                float *restrict y) {
  for (int i = 0; i < 512 * 512; i++) {
    float p = a[i], q = b[i];
    for (int k = 0; k < 50; k++) {
      const float r = p * p - q * q + a[i];
      q = 2 * p * q + b[i];
      p = r;
    }
    x[i] = p, y[i] = q;
  }
}

void levenshtein(const int *restrict a, const int *restrict b, int *restrict result) {
  enum { N = 200 };
  int row[N + 1];
  for (int j = 0; j <= N; j++) row[j] = j;
  for (int i = 0; i < N; i++) {
    int corner = row[0], left = ++row[0];
    for (int j = 0; j < N; j++) {
      const int up = row[j + 1], other = corner + (a[i] != b[j]);
      int best = (left < up ? left : up) + 1;
      best = other < best ? other : best;
      corner = up, left = row[j + 1] = best;
    }
  }
  *result = row[N];
}

void numbers(const float *restrict x, float *restrict y) {
  float m = x[0];
  for (int t = 0; t < 100000; t++) y[t] = m = 0.9f * m + 0.1f * x[t];
}
"""
LOOPS = {
    "ode lorenz of 1000": "lorenz",
    "jacobi 256": "jacobi",
    "floyd warshall 200": "warshall",
    "exponential average of rows": "average",
    "exponential average of numbers": "numbers",
    "mandelbrot": "mandelbrot",
    "levenshtein 200": "levenshtein",
}
"""The C function of each loop of `bench.kernels.iterations`."""


def library(folder: Path) -> ctypes.CDLL:
    """The C functions, compiled."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        sys.exit("no C compiler: install gcc or clang, or name one in CC")
    source, built = folder / "loops.c", folder / "loops.so"
    source.write_text(SOURCE)
    options = ["-O3", "-march=native", "-shared", "-fPIC", "-o", str(built), str(source), "-lm"]
    subprocess.run([*compiler.split(), *options], check=True)
    return ctypes.CDLL(str(built))


def results_of(found: Any) -> list[np.ndarray]:
    """All arrays of a result."""
    return [np.asarray(x) for x in (found if isinstance(found, (tuple, list)) else (found,))]


def taken(runs: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    """Seconds of each run; they take turns."""
    times: dict[str, list[float]] = {who: [] for who in runs}
    for _ in range(rounds):
        for who, run in runs.items():
            start = time.perf_counter()
            run()
            times[who].append(time.perf_counter() - start)
    return times


def main() -> None:
    args = arguments(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        functions = library(Path(folder))
        for loop in iterations():
            symbol = LOOPS.get(loop.name)
            if symbol is None or args.k not in loop.name:
                continue
            inputs = loop.inputs()
            executable = compile_module(hloom.parse(loop.text(inputs)))
            wanted = results_of(executable(*inputs))
            have = [np.empty_like(x) for x in wanted]
            places = [ctypes.c_void_p(x.ctypes.data) for x in (*inputs, *have)]
            by_hand = getattr(functions, symbol)
            by_hand(*places)
            for x, y in zip(wanted, have, strict=True):
                # Where numbers grow without bound the last bits decide: all but a few are near.
                is_number = np.isfinite(x) & np.isfinite(y)
                near = np.isclose(x, y, rtol=0.01, atol=1e-3) | ~is_number
                assert near.mean() > 0.99, f"{loop.name}: C computes something else"
            runs = {"hloom": partial(executable, *inputs), "C": partial(by_hand, *places)}
            times = taken(runs, args.rounds)
            ours, theirs = (statistics.median(t) for t in times.values())
            print(
                f"{loop.name:34s} {ours * 1e3:9.3f} ms   C {theirs * 1e3:9.3f}   ratio "
                f"{ours / theirs:5.2f}   of least {min(times['hloom']) / min(times['C']):5.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
