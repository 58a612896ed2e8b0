#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
file=tuning/h200/tilelang/srcs/linear_bf16fp32_4096x14336x4096/tilebench/iter019_wider_store_buffer.py
python3 -c "import ast, sys; ast.parse(open(sys.argv[1]).read())" "$file"
echo "parse OK"
python3 -c "import runpy, sys; runpy.run_path(sys.argv[1], run_name='iteration')" "$file"
echo "import OK"
