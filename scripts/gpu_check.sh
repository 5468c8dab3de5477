#!/usr/bin/env bash
# What only a GPU can run, in one command and under ten minutes: vLLM beside the trainer (sleep, CUDA IPC), apart from it
# (server, NCCL), adapters, generation ahead of the learner, several trainer processes. Prints what passed.
# Run: bash scripts/gpu_check.sh   (vLLM for CUDA installed: pip install -e '.[vllm]' -c constraints/cuda.txt)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$(mktemp -d)
gpus=$(python -c 'import torch; print(torch.cuda.device_count())')
[ "$gpus" -gt 0 ] || { echo "torch sees no GPU here."; exit 2; }
failed=0

check() { # check NAME OVERRIDE...: two updates of the toy, probed after every weight update
  local name=$1 started=$SECONDS
  shift
  mkdir -p "$root/$name"
  cp -r "$root/start/sft" "$root/$name/"
  if timeout 150 mh-train grpo experiment=toy root="$root" name="$name" learn.updates=2 model.dtype=bfloat16 "$@" > "$root/$name.log" 2>&1; then
    echo "passed  $name  $((SECONDS - started)) s"
  else
    echo "FAILED  $name  (the end of $root/$name.log follows)"
    tail -5 "$root/$name.log"
    failed=1
  fi
}

mh-train sft experiment=toy root="$root" name=start > "$root/start.log" 2>&1 || { tail -5 "$root/start.log"; exit 1; }
beside='engine.options={gpu_memory_utilization: 0.3, enable_sleep_mode: true, transfer: ipc}'
check colocated_ipc_sleep engine=vllm "$beside"
check colocated_file engine=vllm 'engine.options={gpu_memory_utilization: 0.3}'
check adapter engine=vllm 'engine.options={gpu_memory_utilization: 0.3}' model.lora.enabled=true
check ahead engine=vllm 'engine.options={gpu_memory_utilization: 0.3}' rollout.max_staleness=1 learn.importance=token
if [ "$gpus" -gt 1 ]; then
  check server_nccl engine=vllm_server 'engine.options={gpus: ["1"], transfer: nccl, gpu_memory_utilization: 0.3}'
else
  echo "skipped server_nccl: it needs two GPUs"
fi
exit $failed
