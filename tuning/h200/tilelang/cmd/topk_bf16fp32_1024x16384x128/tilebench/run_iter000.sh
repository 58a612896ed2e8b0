#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/topk_bf16fp32_1024x16384x128/tilebench/iter000_torch_topk.py
mkdir -p tuning/h200/tilelang/perf/topk_bf16fp32_1024x16384x128/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/topk_bf16fp32_1024x16384x128/tilebench/timing_iter000.txt
