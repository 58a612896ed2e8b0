#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/matmul_fp16fp32_16384x16384x16384/tilebench/iter015_groups_of_three.py
mkdir -p tuning/h200/tilelang/perf/matmul_fp16fp32_16384x16384x16384/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/matmul_fp16fp32_16384x16384x16384/tilebench/timing_iter015.txt
