"""The power limit as a bound: what a kernel spends there, beside what the chip's ceiling spends; from records alone."""

import msgspec

from harness.boards.board import BoardRow


def drawn(power_w: float | None, sm_clock_mhz: float | None, pj_per_flop: float | None) -> list[str]:
    """Power, clock and energy in words; empty where the driver tells neither."""
    if not (power_w and sm_clock_mhz):
        return []
    energy = f"{pj_per_flop:.3f} pJ per flop" if pj_per_flop else "energy not counted"
    return [f"{power_w:.0f} W at {sm_clock_mhz:.0f} MHz", energy]


def of_ceiling(share: float, *, borrowed: bool | None) -> str:
    """A share of the power ceiling in words, which say where the ceiling is another chip's."""
    owner = "another chip's" if borrowed else "the"
    return f"{share:.0%} of {owner} power ceiling"


class PowerBound(msgspec.Struct, frozen=True):
    """An iteration with an SM clock that the power limit lowers.

    ``free_sm_mhz`` is the clock in short blocks. ``of_ceiling`` and ``ceiling_pj_per_flop`` are None where the chip's
    ceiling is not measured, and figures of energy where the driver does not count it.
    """

    iteration: str
    tflops: float
    power_w: float | None
    sm_clock_mhz: float | None
    free_sm_mhz: float | None
    pj_per_flop: float | None
    of_ceiling: float | None
    ceiling_pj_per_flop: float | None
    ceiling_borrowed: bool | None = None

    @classmethod
    def of(cls, row: BoardRow) -> "PowerBound | None":
        """None where no figure at the power limit is known, or the limit did not lower the clock."""
        if row.sustained_tflops is None or not row.sustained_at_limit:
            return None
        return cls(
            iteration=row.iteration,
            tflops=row.sustained_tflops,
            power_w=row.sustained_power_w,
            sm_clock_mhz=row.sustained_sm_mhz,
            free_sm_mhz=row.sm_clock_mhz,
            pj_per_flop=row.pj_per_flop,
            of_ceiling=row.of_ceiling,
            ceiling_pj_per_flop=row.ceiling_pj_per_flop,
            ceiling_borrowed=row.ceiling_borrowed,
        )

    @property
    def sentence(self) -> str:
        """The share of the ceiling, and the energy beside the ceiling's."""
        share = "the ceiling is not measured"
        if self.of_ceiling is not None:
            share = of_ceiling(self.of_ceiling, borrowed=self.ceiling_borrowed)
        spends = "" if self.ceiling_pj_per_flop is None else f", the ceiling spends {self.ceiling_pj_per_flop:.2f}"
        energy = f"; {self.pj_per_flop:.2f} pJ per flop{spends}" if self.pj_per_flop else ""
        return f"power-bound: {share}{energy}"

    @property
    def clock(self) -> str:
        """What the limit does to the clock."""
        if self.power_w is None or self.sm_clock_mhz is None:
            return f"{self.tflops:.0f} TFLOPS at the power limit"
        free = "" if self.free_sm_mhz is None else f" instead of {self.free_sm_mhz:.0f}"
        return f"{self.power_w:.0f} W hold the SM clock at {self.sm_clock_mhz:.0f} MHz{free}: {self.tflops:.0f} TFLOPS"
