#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h100/tilelang/srcs/matmul_bf16fp32_2048x2048x16384/tilebench/iter011_four_steps_in_the_body.py
mkdir -p tuning/h100/tilelang/perf/matmul_bf16fp32_2048x2048x16384/tilebench
python3 "$file" | tee tuning/h100/tilelang/perf/matmul_bf16fp32_2048x2048x16384/tilebench/timing_iter011.txt
