#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/contiguous_f32fp32_8192x8192/tilebench/iter005_along_the_output.py
mkdir -p tuning/h200/tilelang/perf/contiguous_f32fp32_8192x8192/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/contiguous_f32fp32_8192x8192/tilebench/timing_iter005.txt
