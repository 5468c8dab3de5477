#!/usr/bin/env bash
# Set up, then lint, type-check and run the whole test suite. Arguments go to pytest: scripts/test.sh tests/agent -k parse
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/setup.sh --vllm
bash scripts/browser.sh
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
exec .venv/bin/python -m pytest -n 2 --dist loadfile "$@"
