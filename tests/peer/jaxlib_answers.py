"""What jaxlib says of a module's text, asked in a child process: some wrong texts abort it."""

import json
import subprocess
import sys

ASK = r"""
import json, os, sys
from jaxlib import _hlo
def answer(text):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            options = _hlo.HloPrintOptions()
            said = "+" + _hlo.hlo_module_from_text(text).to_string(options)
        except Exception as error:
            said = "-" + str(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        said = stream.read().decode()
    os.waitpid(child, 0)
    return said
json.dump([answer(text) for text in json.load(sys.stdin)], sys.stdout)
"""


def ask(texts):
    """jaxlib's answer to each module text: `+` and its print, `-` and its error, or nothing."""
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return json.loads(done.stdout)
