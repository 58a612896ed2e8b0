#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h100/tilelang/srcs/matmul_bf16fp32_6144x6144x6144/tilebench/iter001_tiles_256x192.py
mkdir -p tuning/h100/tilelang/perf/matmul_bf16fp32_6144x6144x6144/tilebench
python3 "$file" | tee tuning/h100/tilelang/perf/matmul_bf16fp32_6144x6144x6144/tilebench/timing_iter001.txt
