"""Launches of an operator's own tensors in an arena, as a verification judges them, without a child."""

import random
from collections.abc import Callable

import torch

from harness.judge.child import trials
from harness.judge.child.arena import arena_bytes, create_arena, granule, place
from harness.judge.child.contents import Contents
from harness.judge.facts.problem import parse_shape_key
from harness.judge.limits import complaint, sketch_limit
from harness.operators import OPERATORS

Launch = Callable[..., None]
SETS = 4


def tried(
    key: str, launch: Launch, trial: str = "random", made: Contents | None = None
) -> tuple[list[str], float | None, bool]:
    """The complaints of a trial, the share of its limit that all launches are off, and whether inputs and guards held.

    The share is None where a look finds what cannot be right, such as NaN.
    """
    problem, contents = parse_shape_key(key), made or placed(key)
    contents.refresh()
    corners = None
    if trial == trials.EXACT:
        assert contents.fill_exact()
    if trial == "corners":
        corners = contents.fill_corners(1)
    inputs = contents.keep_inputs(1)
    for tensors in contents.sets:
        launch(*tensors)
    look = contents.look(3, 1, inputs)
    found = trials.judged(trial, problem, look.inputs, look.outputs, corners)
    share = None if look.off is None else look.off / sketch_limit(problem)
    return [*filter(None, map(complaint, found))], share, look.inputs_held and contents.guards_held()


def placed(key: str, *, sets: int = SETS, seed: int = 1) -> Contents:
    """An arena with sets of a problem's tensors, and all that is drawn from a seed."""
    problem, dice = parse_shape_key(key), random.Random(seed)
    arena = create_arena(arena_bytes(problem, sets, granule(problem, cpu=True)), cpu=True)
    placement = place(problem, sets, granule(problem, cpu=True), (0, arena.size), dice)
    return Contents(problem, arena, placement, (0, arena.size), torch.Generator().manual_seed(seed), dice)


def complaints(key: str, launch: Launch, *, seed: int = 1) -> dict[str, list[str]]:
    """What each trial complains of, and under ``held`` and ``timed`` what is found beside the trials."""
    contents = placed(key, seed=seed)
    found: dict[str, list[str]] = {"held": [], "timed": []}
    exact = (trials.EXACT,) if OPERATORS[parse_shape_key(key).operator].fill_exact else ()
    for trial in ("random", *exact, "corners"):
        found[trial], share, held = tried(key, launch, trial, contents)
        if not held:
            found["held"].append(trial)
        if trial == "random" and (share is None or share > 1):
            found["timed"].append(str(share))
    return found


def wrong(key: str, launch: Launch, *, seed: int = 1) -> set[str]:
    """The names of what finds a launch wrong."""
    return {name for name, each in complaints(key, launch, seed=seed).items() if each}
