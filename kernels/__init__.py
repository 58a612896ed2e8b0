"""TileLang families: each takes a problem and its tuning parameters and returns a Program.

For users: ``from kernels import matmul, linear, attention``, which take the family that suits the GPU and the problem.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernels.front import attention, linear, matmul, warm_up

__all__ = ["attention", "linear", "matmul", "warm_up"]


def __getattr__(name: str) -> Any:
    """What users call is imported when it is asked for (PEP 562): a family needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module("kernels.front"), name)
