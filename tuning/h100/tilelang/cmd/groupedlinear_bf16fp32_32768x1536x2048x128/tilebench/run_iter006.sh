#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h100/tilelang/srcs/groupedlinear_bf16fp32_32768x1536x2048x128/tilebench/iter006_turns.py
mkdir -p tuning/h100/tilelang/perf/groupedlinear_bf16fp32_32768x1536x2048x128/tilebench
python3 "$file" | tee tuning/h100/tilelang/perf/groupedlinear_bf16fp32_32768x1536x2048x128/tilebench/timing_iter006.txt
