"""The kernel of a script on a machine without a GPU: a stand-in serves what the script does while it is loaded."""

from harness.catalog import gpus
from harness.extras import stand_in
from harness.extras.foreign import find
from harness.judge.child.kernel import target_of
from harness.judge.facts.program import Program


def program_of(*, gpu: str, **script: str) -> Program:
    """Load a script as on a GPU of the key, and return its kernel; raises KernelNotFound."""
    row = gpus.find(gpu)
    stand_in.stand_in_for_cuda(row.arch, row.sms)
    stand_in.stand_in_for_kernels([], stand_in.pinned)
    with target_of(row), stand_in.OnCpu():
        return find.program_of(gpu=gpu, **script)
