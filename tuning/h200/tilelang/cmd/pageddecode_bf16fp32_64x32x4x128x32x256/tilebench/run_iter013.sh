#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/pageddecode_bf16fp32_64x32x4x128x32x256/tilebench/iter013_heads_together.py
mkdir -p tuning/h200/tilelang/perf/pageddecode_bf16fp32_64x32x4x128x32x256/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/pageddecode_bf16fp32_64x32x4x128x32x256/tilebench/timing_iter013.txt
