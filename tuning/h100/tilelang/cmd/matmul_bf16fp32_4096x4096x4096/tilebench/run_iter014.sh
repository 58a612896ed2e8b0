#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h100/tilelang/srcs/matmul_bf16fp32_4096x4096x4096/tilebench/iter014_stores_leave_first.py
mkdir -p tuning/h100/tilelang/perf/matmul_bf16fp32_4096x4096x4096/tilebench
python3 "$file" | tee tuning/h100/tilelang/perf/matmul_bf16fp32_4096x4096x4096/tilebench/timing_iter014.txt
