#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h100/tilelang/srcs/matmul_bf16fp32_1024x1024x1024/tuner/iter001_tuned_warp_specialized.py
mkdir -p tuning/h100/tilelang/perf/matmul_bf16fp32_1024x1024x1024/tuner
python3 "$file" | tee tuning/h100/tilelang/perf/matmul_bf16fp32_1024x1024x1024/tuner/timing_iter001.txt
