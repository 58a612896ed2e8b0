"""``python -m tilebench_harness``: the command, or with a file first an iteration that is run by hand."""

import runpy
import sys

from tilebench_harness import let_children_import, main

if len(sys.argv) > 1 and sys.argv[1].endswith(".py"):
    let_children_import()
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
else:
    main()
