#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h100/tilelang/srcs/matmul_fp16fp32_16384x16384x16384/tilebench/iter013_groups_of_four.py
mkdir -p tuning/h100/tilelang/perf/matmul_fp16fp32_16384x16384x16384/tilebench
python3 "$file" | tee tuning/h100/tilelang/perf/matmul_fp16fp32_16384x16384x16384/tilebench/timing_iter013.txt
