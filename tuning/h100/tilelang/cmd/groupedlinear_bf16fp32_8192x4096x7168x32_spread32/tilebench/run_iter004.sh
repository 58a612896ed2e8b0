#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h100/tilelang/srcs/groupedlinear_bf16fp32_8192x4096x7168x32_spread32/tilebench/iter004_rows_first.py
mkdir -p tuning/h100/tilelang/perf/groupedlinear_bf16fp32_8192x4096x7168x32_spread32/tilebench
python3 "$file" | tee tuning/h100/tilelang/perf/groupedlinear_bf16fp32_8192x4096x7168x32_spread32/tilebench/timing_iter004.txt
