#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/addscalar_f32fp32_16777216/tilebench/iter003_input_stays.py
mkdir -p tuning/h200/tilelang/perf/addscalar_f32fp32_16777216/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/addscalar_f32fp32_16777216/tilebench/timing_iter003.txt
