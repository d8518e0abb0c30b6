#!/usr/bin/env bash
# Writes ci.txt, what `make` installs: the versions that a fresh resolution of pyproject.toml gives
# today. Usage: requirements/lock.sh [python]
set -euo pipefail
cd "$(dirname "$0")/.."
python="${1:-python3}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

"$python" -m venv "$scratch"
"$scratch/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[dev]'
{
  echo "# Versions that CI installs; written by requirements/lock.sh."
  "$scratch/bin/python" -m pip freeze --exclude-editable --exclude hloom | grep '=='
} > requirements/ci.txt
wc -l requirements/ci.txt
