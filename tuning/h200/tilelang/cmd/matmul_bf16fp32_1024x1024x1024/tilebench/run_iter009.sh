#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/matmul_bf16fp32_1024x1024x1024/tilebench/iter009_split_k.py
mkdir -p tuning/h200/tilelang/perf/matmul_bf16fp32_1024x1024x1024/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/matmul_bf16fp32_1024x1024x1024/tilebench/timing_iter009.txt
