#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/relumatmul_bf16fp32_4096x4096x4096/tilebench/iter000_torch_relu_then_matmul.py
mkdir -p tuning/h200/tilelang/perf/relumatmul_bf16fp32_4096x4096x4096/tilebench
python3 "$file" | tee tuning/h200/tilelang/perf/relumatmul_bf16fp32_4096x4096x4096/tilebench/timing_iter000.txt
