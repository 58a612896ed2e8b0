#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/linear_bf16fp32_64x8192x8192/tilebench/iter014_dependent_launch_alone.py
mkdir -p tuning/h200/tilelang/perf/linear_bf16fp32_64x8192x8192/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/linear_bf16fp32_64x8192x8192/tilebench/timing_iter014.txt
