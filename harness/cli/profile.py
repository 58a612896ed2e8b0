"""The verb profile: what bounds a kernel, and what to try next."""

from typing import Annotated

from cyclopts import Parameter

from harness.boards import tables
from harness.catalog.fitting import require_fit
from harness.catalog.tree import Iteration, Selection, Tree
from harness.cli import many
from harness.cli.options import FleetOptions, MeasureOptions, SelectionOptions, check_duration
from harness.cli.reply import Reply, reported
from harness.errors import InfrastructureError, UsageError
from harness.extras.profile import words
from harness.extras.profile.run import ProfilePlan, Profiles, leaders, recorded
from harness.extras.profile.run import profile as profile_iterations
from harness.judge.facts.gpu import CPU, Gpu
from harness.machine.progress import reporting
from harness.records.profiles import ProfileRecord


def profile(
    chosen: SelectionOptions = SelectionOptions(),
    fleet: FleetOptions = FleetOptions(),
    *,
    counters: Annotated[bool, Parameter(help="Read counters with ncu; else names and durations only.")] = True,
    force: Annotated[bool, Parameter(negative="", help="Use a key that is not this GPU's.")] = False,
    again: Annotated[bool, Parameter(negative="", help="Repeat what is already recorded.")] = False,
    deadline: Annotated[float, Parameter(help="Seconds for one iteration.")] = 180.0,
) -> Reply[list[ProfileRecord]]:
    """Profile iterations with ncu, by default the leader of each problem: what bounds it, and what to try next."""
    check_duration("deadline", deadline)
    tree = Tree.here()
    gpu, device = many.resolve(chosen, fleet, force=force)
    if gpu.is_cpu:
        why = "a CPU has none that ncu reads" if chosen.gpu == CPU else "this machine has no NVIDIA GPU"
        raise InfrastructureError(f"profile reads a GPU's counters, and {why}; run it where the GPU is, as GPU=h200")
    problems: tuple[str, ...] = ()
    if chosen.iter is None:
        iterations = leaders(tree, gpu, chosen.selection)
    else:
        iterations, problems = _named(tree, gpu, chosen.selection)
    require_fit(((tree.short(each.path), each.problem) for each in iterations), gpu, device)
    if fleet.wanted:
        given = {"counters": counters, "deadline": deadline, "again": again or None}
        told = many.of_problem("profile", gpu, chosen, given)
        many.run_errands(fleet, gpu, told, (each.problem for each in iterations))
        results = Profiles(list(recorded(tree, iterations)))
        return _reply(results, problems)
    plan = ProfilePlan(
        tree=tree,
        gpu=gpu,
        device=device,
        iterations=iterations,
        settings=MeasureOptions().settings(gpu),
        counters=counters,
        again=again,
        deadline_s=deadline,
    )
    with reporting(len(iterations)) as reporter:
        results = profile_iterations(plan, reporter)
    if results.remedy is not None:
        problems += reported([f"tilebench: {results.remedy}"])
    return _reply(results, problems)


def _reply(results: Profiles, problems: tuple[str, ...]) -> Reply[list[ProfileRecord]]:
    found = results.records
    return Reply(found, lambda: "\n\n".join(map(words.verdict, found)), results.exit_code, problems)


def _named(tree: Tree, gpu: Gpu, selection: Selection) -> tuple[tuple[Iteration, ...], tuple[str, ...]]:
    """The selected iterations, and why other files are none. Raises UsageError where nothing is selected."""
    iterations, misplaced = tree.scan(gpu.key, selection)
    problems = reported(each.reason for each in misplaced)
    if not iterations:
        raise UsageError(tables.no_iteration(tree, gpu.key, selection))
    return tuple(iterations), problems
