#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
file=tuning/cpu/tilelang/srcs/linear_f32fp32_128x256x512/tilebench/iter006_register_vectors.py
python3 -c "import ast, sys; ast.parse(open(sys.argv[1]).read())" "$file"
echo "parse OK"
python3 -c "import runpy, sys; runpy.run_path(sys.argv[1], run_name='iteration')" "$file"
echo "import OK"
