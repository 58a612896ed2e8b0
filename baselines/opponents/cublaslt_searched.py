"""cuBLASLt with its algorithms searched, by ``nvmath-python``: plan, autotune, execute.

The library's call takes the first algorithm of a heuristic. Here up to ALGORITHMS of them are timed on the device.
C is the output itself with beta = 0, so nothing is copied.
"""

from collections.abc import Callable
from typing import Any, Final

from harness.catalog.opponents import Opponent
from harness.judge.facts.problem import Problem

ALGORITHMS: Final = 64  # nvmath's own limit is 8
ITERATIONS: Final = 20  # of each algorithm


def build(problem: Problem) -> Callable[..., None]:
    from nvmath.linalg.advanced import Matmul, MatmulOptions, MatmulPlanPreferences

    planned: list[Any] = []

    def launch(a: Any, b: Any, out: Any) -> None:
        if problem.operator == "linear":
            b = b.t()
        if planned:
            planned[0].reset_operands_unchecked(a=a, b=b, c=out)
        else:
            matmul = Matmul(a, b, out, beta=0.0, options=MatmulOptions(inplace=True))
            matmul.plan(preferences=MatmulPlanPreferences(limit=ALGORITHMS))
            matmul.autotune(iterations=ITERATIONS)
            planned.append(matmul)
        planned[0].execute()

    return launch


OPPONENTS: Final = (
    Opponent(
        name="cublaslt_searched",
        what="cuBLASLt, the fastest of up to 64 algorithms that its heuristic offers.",
        build=build,
        operators=dict.fromkeys(("matmul", "linear"), ("bf16", "fp16", "f32")),
        architectures=("sm_80", "sm_90a", "sm_100a"),
        requires=("nvmath-python==1.0.0",),
        extra="opponents-cublaslt",
        licence="Apache-2.0",
        source="https://github.com/NVIDIA/nvmath-python",
    ),
)
