#!/usr/bin/env bash
# Make .venv with the pinned CPU set. Idempotent: does nothing when the pins have not changed since the last time.
# PYTHON=python3.12 chooses the interpreter. pip's own settings (PIP_INDEX_URL, PIP_FIND_LINKS, ...) are honoured.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

want=$(cat pyproject.toml constraints/cpu.txt scripts/setup.sh | sha256sum | cut -d' ' -f1)
[ "$(cat .venv/.installed 2>/dev/null || true)" = "$want" ] && exit 0

python=${PYTHON:-$(command -v python3.11 || command -v python3.12 || command -v python3)}
"$python" - <<'P' || { echo "mh_train needs Python 3.11 or 3.12; set PYTHON=/path/to/python3.11."; exit 1; }
import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))
P
echo "Installing the pinned CPU set into .venv. ALFWorld's planner is compiled once: some minutes."
[ -x .venv/bin/python ] || "$python" -m venv .venv
# The planner compiles while everything else downloads.
.venv/bin/pip wheel -q --no-deps -w .venv/wheels -c constraints/cpu.txt fast_downward_textworld jericho > .venv/wheels.log 2>&1 &
wheels=$!
.venv/bin/pip install -q -c constraints/cpu.txt -e '.[dev,docs,track]'
wait "$wheels" || { tail -20 .venv/wheels.log; echo "ALFWorld's planner did not compile: install a C++ compiler and cmake, then try again."; exit 1; }
.venv/bin/pip install -q -c constraints/cpu.txt --find-links .venv/wheels -e '.[alfworld]' pyyaml
echo "$want" > .venv/.installed
