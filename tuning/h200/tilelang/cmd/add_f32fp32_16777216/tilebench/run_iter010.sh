#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/add_f32fp32_16777216/tilebench/iter010_inputs_stay.py
mkdir -p tuning/h200/tilelang/perf/add_f32fp32_16777216/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/add_f32fp32_16777216/tilebench/timing_iter010.txt
