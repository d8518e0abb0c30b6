"""The child process of these tests: runs one program, prints what it computed as JSON."""

import importlib
import json
import sys


def main(name: str) -> None:
    results = importlib.import_module(f"programs.{name}").run()
    import jax
    import numpy as np

    version = jax.devices()[0].client.platform_version
    flat = {
        jax.tree_util.keystr(path): np.asarray(leaf, np.float64).tolist()
        for path, leaf in jax.tree_util.tree_flatten_with_path(results)[0]
    }
    print(json.dumps({"backend": version, "results": flat}))


if __name__ == "__main__":
    main(sys.argv[1])
