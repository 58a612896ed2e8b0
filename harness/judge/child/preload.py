"""What the forkserver imports before it forks: seconds of imports once, and no device touched."""

import gc
from contextlib import suppress

import tilelang  # noqa: F401
import torch

import harness.judge.child.baseline_process
import harness.judge.child.contestant
import harness.judge.child.launches
import harness.judge.child.referee

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
with suppress(ImportError):  # torch without CUDA comes without them
    from cuda.bindings import driver, runtime  # noqa: F401
harness.judge.child.launches.warm_up()
gc.freeze()  # a child need not look through all of this again, nor copy its pages
