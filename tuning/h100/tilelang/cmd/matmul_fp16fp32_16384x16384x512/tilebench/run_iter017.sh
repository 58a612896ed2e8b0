#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h100/tilelang/srcs/matmul_fp16fp32_16384x16384x512/tilebench/iter017_stores_leave_first.py
mkdir -p tuning/h100/tilelang/perf/matmul_fp16fp32_16384x16384x512/tilebench
python3 "$file" | tee tuning/h100/tilelang/perf/matmul_fp16fp32_16384x16384x512/tilebench/timing_iter017.txt
