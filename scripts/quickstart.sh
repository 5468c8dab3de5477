#!/usr/bin/env bash
# From nothing to a trained memory agent on a CPU: mini ALFWorld, cold start, GRPO with the bank filling online, evaluation.
# Settings may be given as for mh-train: scripts/quickstart.sh seed=1 name=second; experiment=quickstart_webshop shops instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/setup.sh
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
case " $*" in *" experiment="*) ;; *) set -- experiment=quickstart "$@" ;; esac
exec .venv/bin/mh-train run "$@"
