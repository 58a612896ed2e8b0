#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/softmax_bf16fp32_4096x16384/tilebench/iter007_input_stays.py
mkdir -p tuning/h200/tilelang/perf/softmax_bf16fp32_4096x16384/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/softmax_bf16fp32_4096x16384/tilebench/timing_iter007.txt
