#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/matmul_bf16fp32_2048x2048x16384/tilebench/iter012_whole_tile_buffered.py
mkdir -p tuning/h200/tilelang/perf/matmul_bf16fp32_2048x2048x16384/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/matmul_bf16fp32_2048x2048x16384/tilebench/timing_iter012.txt
