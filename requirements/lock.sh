#!/usr/bin/env bash
# Writes ci.txt (what `make` installs) and peer.txt (what `make peer` adds): the versions that a
# fresh resolution of pyproject.toml gives today. Usage: requirements/lock.sh [python]
set -euo pipefail
cd "$(dirname "$0")/.."
python="${1:-python3}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

frozen() { # the pinned packages of the scratch environment, without hloom itself
  "$scratch/bin/python" -m pip freeze --exclude-editable --exclude hloom | grep '=='
}

"$python" -m venv "$scratch"
"$scratch/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[dev]'
{ echo "# Versions that CI installs; written by requirements/lock.sh."; frozen; } > requirements/ci.txt
"$scratch/bin/python" -m pip install --quiet --disable-pip-version-check \
  -c requirements/ci.txt -e '.[peer]'
{ echo "# ci.txt plus the peers; written by requirements/lock.sh."; frozen; } > requirements/peer.txt
wc -l requirements/ci.txt requirements/peer.txt
