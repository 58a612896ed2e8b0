#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h100/tilelang/srcs/contiguous_f32fp32_8192x8192/tilebench/iter002_tiles_through_shared.py
mkdir -p tuning/h100/tilelang/perf/contiguous_f32fp32_8192x8192/tilebench
python3 "$file" | tee tuning/h100/tilelang/perf/contiguous_f32fp32_8192x8192/tilebench/timing_iter002.txt
