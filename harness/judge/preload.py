"""What the forkserver imports before it forks: seconds of imports once, and no device touched."""

import gc
from contextlib import suppress

import tilelang  # noqa: F401
import torch

import harness.judge.contestant
import harness.judge.launches
import harness.judge.opponent
import harness.judge.referee

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
with suppress(ImportError):  # torch without CUDA comes without them
    from cuda.bindings import driver, runtime  # noqa: F401
harness.judge.launches.warm_up()
gc.freeze()  # a child need not look through all of this again, nor copy its pages
