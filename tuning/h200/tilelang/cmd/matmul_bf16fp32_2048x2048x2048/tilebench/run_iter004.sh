#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/matmul_bf16fp32_2048x2048x2048/tilebench/iter004_tma_store.py
mkdir -p tuning/h200/tilelang/perf/matmul_bf16fp32_2048x2048x2048/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/matmul_bf16fp32_2048x2048x2048/tilebench/timing_iter004.txt
