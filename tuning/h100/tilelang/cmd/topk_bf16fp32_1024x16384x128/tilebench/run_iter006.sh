#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h100/tilelang/srcs/topk_bf16fp32_1024x16384x128/tilebench/iter006_two_blocks.py
mkdir -p tuning/h100/tilelang/perf/topk_bf16fp32_1024x16384x128/tilebench
python3 "$file" | tee tuning/h100/tilelang/perf/topk_bf16fp32_1024x16384x128/tilebench/timing_iter006.txt
