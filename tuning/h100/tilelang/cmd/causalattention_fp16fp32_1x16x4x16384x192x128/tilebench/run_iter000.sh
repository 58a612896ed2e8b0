#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h100/tilelang/srcs/causalattention_fp16fp32_1x16x4x16384x192x128/tilebench/iter000_torch_sdpa.py
mkdir -p tuning/h100/tilelang/perf/causalattention_fp16fp32_1x16x4x16384x192x128/tilebench
python3 "$file" | tee tuning/h100/tilelang/perf/causalattention_fp16fp32_1x16x4x16384x192x128/tilebench/timing_iter000.txt
