"""Verbs on many GPUs or hosts: each problem is a command line of its own, on the next GPU that is free."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli.options import FleetOptions, SelectionOptions
from harness.errors import ExitCode, UsageError
from harness.judge.candidate import Settings
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.machine.nvml import Device
from harness.records.base import Stage
from harness.runs.run import Plan


def check(fleet: FleetOptions, *, force: bool) -> None:
    """Raise UsageError where the options are none for many GPUs."""
    if force:
        raise UsageError("--force is for one GPU; leave --gpus and --cluster out")
    _ = fleet.most


def resolve(chosen: SelectionOptions, fleet: FleetOptions, *, force: bool) -> tuple[Gpu, Device | None]:
    """The key and its device, as ``gpus.resolve`` has them; of many GPUs only the key that all must have."""
    if not fleet.wanted:
        return gpus.resolve(chosen.gpu, force=force)
    check(fleet, force=force)
    return gpus.resolve(chosen.gpu)[0] if fleet.address is None else gpus.find(chosen.key), None


def run_errands(
    fleet: FleetOptions, gpu: Gpu, line: Iterable[str], problems: Iterable[Problem], upto: Stage = Stage.BENCH
) -> ExitCode:
    """Run a command line for each problem; what it wrote is in this notebook then. Raises InfrastructureError.

    A problem is named once for each record that is expected of it.
    """
    from harness.extras.fleet import driver  # only this needs Ray

    plan = Plan(Tree.here(), gpu, None, (), Settings.of(gpu), upto=upto)
    return driver.run(driver.Fleet(plan, tuple(line), *fleet.place, errands=tuple(problems))).exit_code


def of_problem(
    verb: str, gpu: Gpu, chosen: SelectionOptions, given: Mapping[str, object], by: str = "--shape"
) -> tuple[str, ...]:
    """The command line of a verb for one problem of what is chosen, with these options; ``by`` names the problem."""
    from harness.extras.fleet import driver

    narrowed = {"model": chosen.model, "iter": chosen.iter}
    return (verb, "--gpu", gpu.key, by, driver.SHAPE, *as_words({**narrowed, **given}))


def changed(options: Any) -> dict[str, object]:
    """The options of a group that are not what they are by default."""
    return {each.name: given for each in fields(options) if (given := getattr(options, each.name)) != each.default}


def as_words(given: Mapping[str, object]) -> tuple[str, ...]:
    """Options of a command line, but those that are None."""
    found: list[str] = []
    for name, value in given.items():
        for each in value if isinstance(value, list) else [value]:
            option = name.replace("_", "-")
            if isinstance(each, bool):
                found.append(f"--{option}" if each else f"--no-{option}")
            elif each is not None:
                found.append(f"--{option}={each}")
    return tuple(found)
