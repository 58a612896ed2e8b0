#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/linear_bf16fp32_4096x14336x4096/tilebench/iter018_tiles_256x208.py
mkdir -p tuning/h200/tilelang/perf/linear_bf16fp32_4096x14336x4096/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/linear_bf16fp32_4096x14336x4096/tilebench/timing_iter018.txt
