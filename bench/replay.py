"""`make replay BASE=main`: what the compiler makes of every program, at a base commit and here.

Each program of examples and corpus, and two of every kernel family, is compiled by both, and the
text of its stages compared: the optimised graph, the places of its values, kernels and thunks. A
change that only moves code alters none of them; one that means to alter some shows here which.
Nothing is run.

The base is checked out and compiled under build/replay/<commit>, once.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
KEPT = HERE / "build" / "replay"
STAGES = ("hlo", "plan", "kernels", "thunks")
MOST_LINES = 40
"""Of a difference that are shown."""
LENGTHS = (77, 5000)
"""Of the programs of kernel families."""
THREADS = 2
"""Programs depend on how many may work; these are the same on every machine."""


def programs(words: Sequence[str]) -> list[Path]:
    """The files whose names hold one of the words; all of them if there are no words."""
    from bench.corpus import CORPUS

    files = sorted([*(HERE / "examples").glob("*.hlo"), *CORPUS.rglob("*.hlo"), *sized()])
    return [f for f in files if not words or any(w in f.name for w in words)]


def sized() -> Iterator[Path]:
    """A program of every kernel family at each length, written to files."""
    # This checkout's; in `written`, `tests` and `bench` are the base's.
    from tests.fuzz.size_families import families, names

    folder = KEPT / "sized"
    folder.mkdir(parents=True, exist_ok=True)
    for name in names():
        family = families()[name]
        for length in LENGTHS:
            if length <= family.most:
                file = folder / f"{name.replace(' ', '_').replace('/', '_')}-{length}.hlo"
                file.write_text(family.text(length), encoding="utf-8")
                yield file


def digest_of(files: Sequence[Path]) -> str:
    """Of names and contents."""
    digest = sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def written(files: Sequence[Path], folder: Path) -> None:
    """Compile each program with the hloom that is imported, and write its stages to the folder."""
    import hloom

    folder.mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(files):
        if sys.stderr.isatty():
            print(f"\r  {number + 1} of {len(files)} {file.name:60.60}", end="", file=sys.stderr)
        name = f"{file.parent.name}-{file.stem}"
        try:
            executable = hloom.compile(hloom.load(file), threads=THREADS)
            texts = {stage: executable.as_text(stage) for stage in STAGES}
        except hloom.HloError as error:
            texts = dict.fromkeys(STAGES, f"{error.rule}\n")
        for stage, text in texts.items():
            (folder / f"{name}.{stage}").write_text(text, encoding="utf-8")
    if sys.stderr.isatty():
        print(file=sys.stderr)


def write_apart(tree: Path, files: Sequence[Path], folder: Path) -> None:
    """As `written`, in a process that imports the hloom of a tree; nothing half-written is left."""
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [sys.executable, __file__, "--write", str(unfinished), *map(str, files)]
    environment = {**os.environ, "PYTHONPATH": str(tree), "HLOOM_CACHE": "0"}
    subprocess.run(command, check=True, cwd=tree, env=environment)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


def base_folder(base: str, files: Sequence[Path]) -> Path:
    """Where the stages of the base commit are, which are made if they are not there."""
    commit = git("rev-parse", "--short=12", f"{base}^{{commit}}")
    done = KEPT / commit / digest_of(files)
    if not done.exists():
        tree = KEPT / commit / "tree"
        if not tree.exists():
            git("worktree", "prune")
            git("worktree", "add", "--detach", str(tree), commit)
        print(f"== {commit}", file=sys.stderr)
        write_apart(tree, files, done)
    return done


def git(*words: str) -> str:
    """What git prints, stripped."""
    done = subprocess.run(["git", *words], cwd=HERE, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def differing(before: Path, after: Path, files: Sequence[Path]) -> Iterator[tuple[str, list[str]]]:
    """Name and changed lines of every stage that is not the same in both folders."""
    for file in files:
        for stage in STAGES:
            name = f"{file.parent.name}-{file.stem}.{stage}"
            old, new = [(f / name).read_text(encoding="utf-8") for f in (before, after)]
            if old != new:
                lines = difflib.unified_diff(old.splitlines(), new.splitlines(), n=1, lineterm="")
                yield name, list(lines)[2:]


def main() -> int:
    """Compare, print what differs; the exit status is 1 if anything does."""
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__)
    parser.add_argument("--base", default="main", help="the commit to compare with")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", help="programs whose names hold one of these only")
    args = parser.parse_args()
    if args.write:
        written([Path(word) for word in args.words], args.write)
        return 0
    files = programs(args.words)
    before = base_folder(args.base, files)
    print("== this checkout", file=sys.stderr)
    after = KEPT / "here"
    write_apart(HERE, files, after)
    changed = list(differing(before, after, files))
    for name, lines in changed:
        print(f"-- {name}: {len(lines)} lines", *lines[:MOST_LINES], sep="\n")
    print(f"{len(files)} programs, {len(changed)} of {len(files) * len(STAGES)} stages differ")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
