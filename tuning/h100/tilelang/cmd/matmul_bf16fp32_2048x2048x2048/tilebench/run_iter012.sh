#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h100/tilelang/srcs/matmul_bf16fp32_2048x2048x2048/tilebench/iter012_whole_tile_buffered.py
mkdir -p tuning/h100/tilelang/perf/matmul_bf16fp32_2048x2048x2048/tilebench
python3 "$file" | tee tuning/h100/tilelang/perf/matmul_bf16fp32_2048x2048x2048/tilebench/timing_iter012.txt
