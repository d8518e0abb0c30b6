"""What jaxlib reads in texts, many at a time, asked in child processes: some texts abort it."""

import json
import subprocess
import sys

ASK = r"""
import json, os, struct, sys
from jaxlib import _hlo
texts, preset = json.load(sys.stdin)
options = getattr(_hlo.HloPrintOptions, preset)() if preset else _hlo.HloPrintOptions()
answers = []
while len(answers) < len(texts):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(write, "wb") as stream:
            for text in texts[len(answers):]:
                try:
                    said = "+" + _hlo.hlo_module_from_text(text).to_string(options)
                except Exception as error:
                    said = "-" + str(error)
                data = said.encode("utf-8", "surrogateescape")
                stream.write(struct.pack("<I", len(data)) + data)
                stream.flush()
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        while len(head := stream.read(4)) == 4:
            answers.append(stream.read(struct.unpack("<I", head)[0]).decode("utf-8", "replace"))
    os.waitpid(child, 0)
    if len(answers) < len(texts):
        answers.append("")
json.dump(answers, sys.stdout)
"""


def ask(texts: list[str], preset: str = "") -> list[str]:
    """jaxlib's answer to each text: `+` and its print, `-` and its error, nothing if it aborted."""
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps([texts, preset]),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return json.loads(done.stdout)
