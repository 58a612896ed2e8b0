"""Records of power ceilings: what a chip's tensor cores reach under its power limit with nothing to move."""

from collections.abc import Iterable

from harness.records.base import BaseRecord, Environment


class CeilingRecord(BaseRecord, frozen=True):
    """The ceiling of one chip for one input dtype, measured alone for about two seconds on normal random inputs.

    ``at_limit`` says whether the power limit lowered the clock; without it the figure is the peak rate.
    """

    gpu: str
    dtype: str
    tflops: float
    sm_clock_mhz: float
    power_w: float
    pj_per_flop: float
    temperature_c: float
    at_limit: bool
    seconds: float
    environment: Environment

    def borrowed(self, environment: Environment) -> bool:
        """Whether it was measured on another chip."""
        return self.environment.device_uuid != environment.device_uuid


def newest(records: Iterable[CeilingRecord], dtype: str, environment: Environment) -> CeilingRecord | None:
    """The newest ceiling of a chip, or else of another chip of its name."""
    fitting = [each for each in records if each.dtype == dtype and each.environment.device == environment.device]
    own = [each for each in fitting if not each.borrowed(environment)]
    return next(reversed(own or fitting), None)
