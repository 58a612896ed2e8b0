"""The scripts beside an iteration: ``build_iter<NNN>.sh`` and ``run_iter<NNN>.sh``."""

from typing import Final

from harness.catalog.tree import Iteration, Tree
from harness.machine import files
from harness.machine.repository import code

_HEAD: Final = """\
#!/usr/bin/env bash
# Written by tilebench; run from the repository's root.
set -euo pipefail
export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$PWD"
[ -d .venv ] && export PATH="$PWD/.venv/bin:$PATH"
{packages}file={path}
"""
_INSTALLED: Final = (  # in a repository that does not hold the packages itself
    "PYTHONPATH=\"$PYTHONPATH:$(python3 -c 'import tilebench_harness; print(tilebench_harness.HOME)')\"\n"
)
_BUILD: Final = _HEAD + (
    'python3 -c "import ast, sys; ast.parse(open(sys.argv[1]).read())" "$file"\n'
    'echo "parse OK"\n'
    'python3 -c "import runpy, sys; runpy.run_path(sys.argv[1], run_name=\'iteration\')" "$file"\n'
    'echo "import OK"\n'
)
_RUN: Final = _HEAD + 'mkdir -p {folder}\npython3 "$file" | tee {timing}\n'


def write(tree: Tree, iteration: Iteration) -> None:
    """Write the scripts that are missing or out of date."""
    timing = tree.timing(iteration)
    words = {
        "path": tree.short(iteration.path),
        "timing": tree.short(timing),
        "folder": tree.short(timing.parent),
        "packages": "" if code(tree.root) == tree.root else _INSTALLED,
    }
    for verb, text in (("build", _BUILD), ("run", _RUN)):
        script = tree.script(verb, iteration)
        content = text.format(**words)
        if script.is_file() and script.read_text() == content:
            continue
        files.put(script, content.encode(), 0o755)
