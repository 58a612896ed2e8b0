"""What the forkserver imports before it forks: seconds of imports once, and no device touched."""

import tilelang  # noqa: F401
import torch

import harness.judge.contestant
import harness.judge.opponent
import harness.judge.referee  # noqa: F401

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
