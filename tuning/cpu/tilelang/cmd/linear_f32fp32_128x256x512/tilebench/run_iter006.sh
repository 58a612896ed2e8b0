#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
file=tuning/cpu/tilelang/srcs/linear_f32fp32_128x256x512/tilebench/iter006_register_vectors.py
mkdir -p tuning/cpu/tilelang/perf/linear_f32fp32_128x256x512/tilebench
python3 "$file" | tee tuning/cpu/tilelang/perf/linear_f32fp32_128x256x512/tilebench/timing_iter006.txt
