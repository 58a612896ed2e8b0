#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h100/tilelang/srcs/crossentropy_bf16fp32_8192x32000/tilebench/iter005_fast_exponential.py
mkdir -p tuning/h100/tilelang/perf/crossentropy_bf16fp32_8192x32000/tilebench
python3 "$file" | tee tuning/h100/tilelang/perf/crossentropy_bf16fp32_8192x32000/tilebench/timing_iter005.txt
