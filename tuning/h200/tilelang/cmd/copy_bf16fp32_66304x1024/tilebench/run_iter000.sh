#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/copy_bf16fp32_66304x1024/tilebench/iter000_torch_copy.py
mkdir -p tuning/h200/tilelang/perf/copy_bf16fp32_66304x1024/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/copy_bf16fp32_66304x1024/tilebench/timing_iter000.txt
