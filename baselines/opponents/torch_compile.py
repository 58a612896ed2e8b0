"""``torch.compile``: the library's own call, compiled. Inductor makes Triton of it on a GPU, and C++ on a CPU."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from harness.catalog.opponents import Opponent
from harness.judge.facts.problem import Problem

# What mode="max-autotune" sets, but without graphs of its own: the timer captures what is to be captured.
MAX_AUTOTUNE: Final[dict[str, Any]] = {"max_autotune": True, "coordinate_descent_tuning": True}
ALWAYS: Final[dict[str, Any]] = {"triton.cudagraphs": False, "compile_threads": 1}
FLOATS: Final = ("bf16", "fp16", "f32")
ELEMENTWISE: Final = ("add", "addscalar", "copy", "contiguous")
ROWS: Final = ("rmsnorm", "softmax", "crossentropy")
LICENCE, SOURCE = "BSD-3-Clause", "https://github.com/pytorch/pytorch"


def build(problem: Problem, options: dict[str, Any] = ALWAYS) -> Callable[..., object]:
    import torch

    import baselines

    library = baselines.library(problem)

    def call(*tensors: torch.Tensor) -> None:
        library(*tensors)

    compiled: Callable[..., object] = torch.compile(
        call if library.returns else library.call, fullgraph=True, dynamic=False, options=options
    )
    return compiled


OPPONENTS: Final = (
    Opponent(
        name="torch_compile",
        what="The library's call under torch.compile with max-autotune: Triton's templates beside the library.",
        build=partial(build, options=ALWAYS | MAX_AUTOTUNE),
        # Attention is left out: Inductor calls the library there.
        operators=dict.fromkeys(("matmul", "linear", "relumatmul", *ELEMENTWISE, *ROWS), FLOATS)
        | {"scaledlinear": ("e4m3",)},
        architectures=("sm_80", "sm_90a", "sm_100a"),
        licence=LICENCE,
        source=SOURCE,
    ),
    Opponent(
        name="torch_compile_cpu",
        what="The library's call under torch.compile: C++ by Inductor, which needs a C++ compiler.",
        build=build,
        operators={"relumatmul": ("f32",)},  # g++ takes a quarter of a minute for each, so one shows it
        architectures=("c",),
        licence=LICENCE,
        source=SOURCE,
    ),
)
