"""Launches of an operator's own tensors in an arena, as a verification judges them, without a child."""

import random
from collections.abc import Callable

import torch

from harness.judge.child import trials
from harness.judge.child.arena import arena_bytes, create_arena, place
from harness.judge.child.contents import Contents
from harness.judge.facts.problem import parse_shape_key
from harness.judge.limits import complaint, sketch_limit

Launch = Callable[..., None]
SETS = 4


def complaints(key: str, launch: Launch, *, seed: int = 1) -> dict[str, list[str]]:
    """What each trial complains of, and under ``held`` and ``timed`` what is found beside the trials."""
    problem, dice = parse_shape_key(key), random.Random(seed)
    arena = create_arena(arena_bytes(problem, SETS), cpu=True)
    placement = place(problem, SETS, arena.size, dice)
    contents = Contents(problem, arena, placement, torch.Generator().manual_seed(seed), dice)
    found: dict[str, list[str]] = {"held": [], "timed": []}
    for trial in ("random", trials.EXACT, "corners"):
        contents.refresh()
        which = None
        if trial == trials.EXACT:
            assert contents.fill_exact()
        if trial == "corners":
            which = contents.fill_corners(1)
        inputs = contents.keep_inputs(1)
        for tensors in contents.sets:
            launch(*tensors)
        look = contents.look(3, 1, inputs)
        judged = trials.judged(trial, problem, look.inputs, look.outputs, which)
        found[trial] = [*filter(None, map(complaint, judged))]
        if not (look.inputs_held and contents.guards_held()):
            found["held"].append(trial)
        if trial == "random" and (look.off is None or look.off > sketch_limit(problem)):
            found["timed"].append(str(look.off))
    return found


def wrong(key: str, launch: Launch, *, seed: int = 1) -> set[str]:
    """The names of what finds a launch wrong."""
    return {name for name, each in complaints(key, launch, seed=seed).items() if each}
