"""Rivals: what leads a problem in a regime, against the strongest opponent of that regime."""

from dataclasses import dataclass

from harness.boards.board import Board, BoardRow
from harness.records.base import Regime


@dataclass(frozen=True, slots=True)
class Rivalry:
    """The opponent's time over the leader's, with a 95% interval. Below 1 the opponent is faster.

    ``as_a_pair``: measured so. Else it is the quotient of their ratios to the library, with the widest interval that
    both allow. ``to_library`` is the leader's ratio to the library in the same regime.
    """

    leader: BoardRow
    opponent: BoardRow
    to_library: float | None
    ratio: float
    low: float
    high: float
    as_a_pair: bool

    @property
    def opponent_leads(self) -> bool:
        return self.high < 1

    @property
    def to_strongest(self) -> float:
        """The same against the strongest kernel, the library included."""
        return min(self.ratio, self.to_library or self.ratio)

    @property
    def figure(self) -> str:
        """The quotient; with a ~ from two ratios."""
        return f"{self.ratio:.4f}" if self.as_a_pair else f"~{self.ratio:.3f}"


def rivalry(board: Board, regime: Regime = Regime.PAIRED) -> Rivalry | None:
    """None where the board has no leader or no opponent in that regime, or an interval reaches 0."""
    leader, opponent, prefix = (
        (board.first_at_limit, board.sustained_best_opponent, "sustained_")
        if regime is Regime.SUSTAINED
        else (board.leader, board.best_opponent, "")
    )
    if leader is None or opponent is None:
        return None
    both = leader, opponent, getattr(leader, f"{prefix}ratio")
    pair = _figures(leader, f"{prefix}vs_best")
    if pair is not None:
        return Rivalry(*both, *pair, as_a_pair=True)
    ours, theirs = _figures(leader, f"{prefix}ratio"), _figures(opponent, f"{prefix}ratio")
    if ours is None or theirs is None:
        return None
    (ratio, low, high), (other, other_low, other_high) = ours, theirs
    return Rivalry(*both, ratio / other, low / other_high, high / other_low, as_a_pair=False)


def _figures(row: BoardRow, name: str) -> tuple[float, float, float] | None:
    figure, low, high = (getattr(row, f"{name}{end}") for end in ("", "_low", "_high"))
    return (figure, low, high) if figure and low and high and low > 0 else None
