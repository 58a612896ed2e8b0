#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/matmul_bf16fp32_6144x6144x6144/tilebench/iter000_torch_matmul.py
mkdir -p tuning/h200/tilelang/perf/matmul_bf16fp32_6144x6144x6144/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/matmul_bf16fp32_6144x6144x6144/tilebench/timing_iter000.txt
