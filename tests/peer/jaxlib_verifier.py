"""What XLA's own verifier says of a module, asked in a child process: some modules abort it.

jaxlib compiles a small program on XLA:CPU and lets a callback put another module in its place;
XLA verifies what it gets. The module in question is called from an entry with the signature of
the small program, so anything may be asked, fusions and collectives too. A second callback stops
the compilation before code is made.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PATIENCE = 60.0

WORKER = r"""
import json, re, sys
import jax, jax.numpy as jnp
from jax.extend import xla
from jax._src.xla_transform import PipelineStage
from jaxlib import _hlo

STOP = "stop: it was verified"
waiting, used = [None], [False]

def swap(serialized):
    module, waiting[0] = waiting[0], None
    if module is None and used[0]:
        raise RuntimeError(STOP)
    used[0] = used[0] or module is not None
    return module

def stop(serialized):
    if used[0]:
        raise RuntimeError(STOP)

register = xla.register_hlo_module_transformation
register(swap, name="swap", stage=PipelineStage.PRE_SCHEDULER, platforms="cpu")
register(stop, name="stop", stage=PipelineStage.POST_SCHEDULER, platforms="cpu")
program = jax.jit(lambda x: x + 1).lower(jnp.float32(1))

def wrapped(text):
    module = _hlo.hlo_module_from_text(text)
    proto = module.as_serialized_hlo_module_proto()
    signature = _hlo.XlaComputation(proto).program_shape()
    body = module.to_string().split("\n", 1)[1]
    name = re.search(r"^ENTRY (%?\S+) ", body, re.M)[1]
    lines = ["  %entry_x = f32[] parameter(0)"]
    shapes = signature.parameter_shapes()
    for k, shape in enumerate(shapes):
        lines.append(f'  %argument{k} = {shape} custom-call(), custom_call_target="made"')
    arguments = ", ".join(f"%argument{k}" for k in range(len(shapes)))
    result = signature.result_shape()
    lines.append(f"  %entry_call = {result} call({arguments}), to_apply={name}")
    lines.append("  ROOT %entry_root = f32[] negate(%entry_x)")
    entry = "ENTRY %asked (x: f32[]) -> f32[] {\n" + "\n".join(lines) + "\n}\n"
    text = "HloModule asked\n" + body.replace("ENTRY " + name, name, 1) + "\n" + entry
    return _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()

def verdict(text):
    try:
        proto = wrapped(text)
    except Exception as error:
        return "unread: " + str(error)
    say("read")
    waiting[0], used[0] = proto, False
    try:
        program.compile()
    except Exception as error:
        if STOP in str(error):
            return "valid"
        return ("invalid: " if "during context" in str(error) else "unread: ") + str(error)
    return "valid"

texts = json.load(open(sys.argv[1]))
with open(sys.argv[2], "a") as out:
    for k in range(int(sys.argv[3]), len(texts)):
        def say(what, k=k):
            out.write(json.dumps([k, what]) + "\n")
            out.flush()
        say("begun")
        say(verdict(texts[k]))
"""


def verdicts(texts: list[str]) -> list[str]:
    """For each module text `valid`, `invalid: why`, `unread: why`, or `aborted` where XLA died.

    `unread` means that the parser or the reader of protos refused it before the verifier.
    """
    found: dict[int, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        asked, answers = Path(folder) / "texts.json", Path(folder) / "answers"
        asked.write_text(json.dumps(texts))
        answers.touch()
        start = 0
        while start < len(texts):
            _answer([sys.executable, "-c", WORKER, str(asked), str(answers), str(start)], answers)
            last = start - 1
            for line in answers.read_text().splitlines():
                k, what = json.loads(line)
                last = max(last, k)
                found[k] = {"begun": "unread: it aborted", "read": "aborted"}.get(what, what)
            if last < start:
                raise RuntimeError("the child process died before it answered")
            start = last + 1
    return [found[k] for k in range(len(texts))]


def _answer(command: list[str], answers: Path) -> None:
    """Run a child until it ends, or has written no answer for `PATIENCE` seconds: XLA hangs now
    and then, and what it was asked counts as not answered."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as child:
        size, last = 0, time.monotonic()
        while child.poll() is None:
            time.sleep(0.05)
            if answers.stat().st_size > size:
                size, last = answers.stat().st_size, time.monotonic()
            elif time.monotonic() - last > PATIENCE:
                child.kill()
