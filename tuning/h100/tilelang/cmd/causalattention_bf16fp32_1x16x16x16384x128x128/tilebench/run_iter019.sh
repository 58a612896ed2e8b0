#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h100/tilelang/srcs/causalattention_bf16fp32_1x16x16x16384x128x128/tilebench/iter019_kept_maxima.py
mkdir -p tuning/h100/tilelang/perf/causalattention_bf16fp32_1x16x16x16384x128x128/tilebench
python3 "$file" | tee tuning/h100/tilelang/perf/causalattention_bf16fp32_1x16x16x16384x128x128/tilebench/timing_iter019.txt
