#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
file=tuning/cpu/tilelang/srcs/matmul_f32fp32_256x256x256/tilebench/iter002_n_innermost.py
mkdir -p tuning/cpu/tilelang/perf/matmul_f32fp32_256x256x256/tilebench
python3 "$file" | tee tuning/cpu/tilelang/perf/matmul_f32fp32_256x256x256/tilebench/timing_iter002.txt
