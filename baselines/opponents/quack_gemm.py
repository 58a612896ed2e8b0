"""quack's products, ``quack-kernels``: CuTe DSL, with its default kernel and with the one that its tuner picks.

It writes into the given output. The tuner compiles and times up to 44 kernels at the first call.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

from harness.catalog.opponents import Opponent
from harness.judge.facts.problem import Problem


def build(problem: Problem, *, tuned: bool) -> Callable[..., None]:
    from quack.cache import async_compile
    from quack.gemm_interface import gemm

    # The tuner's compile workers need semaphores and sockets, which a contestant has not. Without them it compiles in
    # this process, which is as fast: a contestant has one core.
    async_compile.pool_scope = nullcontext
    transposed = problem.operator == "linear"

    def launch(a: Any, b: Any, out: Any) -> None:
        gemm(a, b.t() if transposed else b, out=out, tuned=tuned)

    return launch


def _quack(name: str, what: str, *, tuned: bool) -> Opponent:
    return Opponent(
        name=name,
        what=what,
        build=partial(build, tuned=tuned),
        operators=dict.fromkeys(("matmul", "linear"), ("bf16", "fp16")),
        architectures=("sm_90a", "sm_100a"),
        requires=("quack-kernels==0.6.5", "nvidia-cutlass-dsl[cu13]==4.8.1"),
        extra="opponents-quack",
        licence="Apache-2.0",
        source="https://github.com/Dao-AILab/quack",
    )


OPPONENTS: Final = (
    _quack("quack", "quack's product in CuTe DSL, its default kernel.", tuned=False),
    _quack("quack_tuned", "quack's product in CuTe DSL, the kernel that its own tuner picks.", tuned=True),
)
