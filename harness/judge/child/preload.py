"""Imported by the forkserver before it forks: seconds of imports, once, that touch no device."""

import gc
from contextlib import suppress

import tilelang  # noqa: F401
import torch

import harness.judge.child.baseline_process
import harness.judge.child.contestant
import harness.judge.child.launches
import harness.judge.child.namespaces
import harness.judge.child.referee

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
with suppress(ImportError):  # a CPU build of torch has no CUDA bindings
    from cuda.bindings import driver, runtime  # noqa: F401
with suppress(ImportError):  # TileLang imports it as it compiles first, which moves the objects that it makes
    from tilelang.cache import cuda_binary_cache  # noqa: F401
harness.judge.child.launches.warm_up()
harness.judge.child.namespaces.offered()
gc.freeze()  # children neither scan these objects again nor copy their pages
