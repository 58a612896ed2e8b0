#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h100/tilelang/srcs/softmax_bf16fp32_4096x16384/tilebench/iter003_one_barrier.py
mkdir -p tuning/h100/tilelang/perf/softmax_bf16fp32_4096x16384/tilebench
python3 "$file" | tee tuning/h100/tilelang/perf/softmax_bf16fp32_4096x16384/tilebench/timing_iter003.txt
