#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/mladecode_bf16fp32_64x128x512x64x64x64/tilebench/iter006_warps_look_up.py
mkdir -p tuning/h200/tilelang/perf/mladecode_bf16fp32_64x128x512x64x64x64/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/mladecode_bf16fp32_64x128x512x64x64x64/tilebench/timing_iter006.txt
