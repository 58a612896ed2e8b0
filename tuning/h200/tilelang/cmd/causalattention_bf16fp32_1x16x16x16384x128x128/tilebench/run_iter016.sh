#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/causalattention_bf16fp32_1x16x16x16384x128x128/tilebench/iter016_kept_maxima.py
mkdir -p tuning/h200/tilelang/perf/causalattention_bf16fp32_1x16x16x16384x128x128/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/causalattention_bf16fp32_1x16x16x16384x128x128/tilebench/timing_iter016.txt
