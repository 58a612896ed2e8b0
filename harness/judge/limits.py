"""The error limits of a right result, and the complaint about a wrong one; pure arithmetic without torch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.judge.facts.dtypes import NARROW_FLOATS
from harness.judge.facts.operator import OUTPUT_SCALE
from harness.judge.facts.problem import Problem
from harness.records.results import Trial

MAX_ABS_LIMIT: Final = {"bfloat16": 1e-2, "float16": 1e-3, "float32": 1e-4}
UNIT_ROUNDOFF: Final = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24}
SPACING: Final = {"float16": 2.0**-24}  # of the smallest values; that of wider exponents is nothing
FP8_ROUNDOFF: Final = 2.0**-13  # Hopper's fp8 tensor cores keep about 14 bits of a sum


@dataclass(frozen=True, slots=True)
class ErrorLimits:
    max_abs: float
    rel: float


def limits(problem: Problem, output: int = 0) -> ErrorLimits:
    """The largest |error| and the largest ‖C-R‖/‖R‖ of a right output of floats.

    Rounding to the output's dtype leaves a relative RMS error of about 0.43 unit roundoffs (uniform in a binade); the
    limit is 1.5 times that. Independent roundings add up by their squares. Summing K terms adds at most about sqrt(K)
    roundoffs of the accumulator (Higham, "Accuracy and Stability of Numerical Algorithms", section 2.8), granted four
    times.
    """
    narrow = problem.input in NARROW_FLOATS
    accumulator = FP8_ROUNDOFF if narrow else UNIT_ROUNDOFF["float32"]
    _, dtype = problem.outputs[output]
    rounding = 1.5 * 0.43 * UNIT_ROUNDOFF[dtype] * math.sqrt(problem.roundings_of(output))
    summing = 4 * math.sqrt(problem.terms_of(output)) * accumulator
    if narrow:
        summing = 4 * accumulator  # relative to the running sum, which scaling keeps near the output's size
    scale = problem.scale_of(output)
    max_abs = MAX_ABS_LIMIT[dtype] * scale / OUTPUT_SCALE
    if problem.is_skewed(output):  # its many small values are spaced evenly
        max_abs += SPACING.get(dtype, 0.0)
        rounding += 1.5 * SPACING.get(dtype, 0.0) / math.sqrt(12) / scale
    return ErrorLimits(max_abs, rounding + summing)


def sketch_limit(problem: Problem) -> float:
    """The largest difference in a sketch of a right output: rounding errors of N random signs, eight deviations.

    It is 1 for an operator without a sketch: there differences are shares of the limits.
    """
    if not problem.has_sketch:
        return 1.0
    return 8 / 1.5 * limits(problem).rel * OUTPUT_SCALE * math.sqrt(problem.output_shape[-1])


def worst(trials: Sequence[Trial]) -> Trial:
    """The trial with the largest absolute error, of at least one. An error that is not finite is the largest."""
    return max(trials, key=lambda trial: math.inf if trial.max_abs_err is None else trial.max_abs_err)


def complaint(trial: Trial) -> str | None:
    """The complaint about a trial's result; None if it is right."""
    said = _wrong(trial)
    return f"{trial.name} trial: {said}{f'; {trial.worst}' if trial.worst else ''}" if said else None


def _wrong(trial: Trial) -> str | None:
    if trial.max_abs_err is None:
        return "the output holds values that are not finite (or was not written)"
    if trial.max_abs_limit is None:
        return f"it must match bit for bit, max_abs_err={trial.max_abs_err:.3g}" if trial.max_abs_err else None
    if not trial.max_abs_err <= trial.max_abs_limit:  # so written, NaN fails
        return f"max_abs_err={trial.max_abs_err:.3g} is over {trial.max_abs_limit:.3g}"
    if trial.rel_err is None or trial.rel_limit is None or not trial.rel_err <= trial.rel_limit:
        return f"rel_err={trial.rel_err or math.inf:.3g} is over {trial.rel_limit:.3g}"
    return None
