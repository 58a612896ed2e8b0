"""The verb profile: what bounds a kernel, and what to try next."""

from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from harness.catalog.fitting import require_fit
from harness.catalog.tree import Tree
from harness.cli import many
from harness.cli.notebook import chosen_iterations
from harness.cli.options import FleetOptions, MeasureOptions, SelectionOptions
from harness.cli.reply import Reply, reported
from harness.errors import InfrastructureError
from harness.extras.profile import words
from harness.extras.profile.run import Profiles, recorded
from harness.extras.profile.run import profile as profile_iterations
from harness.judge.facts.gpu import CPU
from harness.machine.progress import reporting
from harness.machine.ranges import POSITIVE
from harness.records.profiles import ProfileRecord
from harness.runs.run import Plan


def profile(
    chosen: SelectionOptions = SelectionOptions(),
    fleet: FleetOptions = FleetOptions(),
    *,
    counters: Annotated[bool, Parameter(help="Read counters with ncu; without them only names and durations.")] = True,
    force: Annotated[bool, Parameter(negative="", help="Use a key that is not this GPU's.")] = False,
    again: Annotated[bool, Parameter(negative="", help="Repeat profiles that are already recorded.")] = False,
    deadline: Annotated[float, POSITIVE, Parameter(help="Seconds for one iteration.")] = 180.0,
) -> Reply[list[ProfileRecord]]:
    """Profile iterations with ncu, by default the leader of each problem: what bounds it, and what to try next."""
    tree = Tree.here()
    gpu, device = many.resolve(chosen, fleet, force=force)
    if gpu.is_cpu:
        why = "a CPU has none that ncu reads" if chosen.gpu == CPU else "this machine has no NVIDIA GPU"
        raise InfrastructureError(f"profile reads a GPU's counters, and {why}; run it where the GPU is")
    iterations, problems = chosen_iterations(tree, chosen, library=True)
    require_fit(((tree.short(each.path), each.problem) for each in iterations), gpu, device)
    if fleet.wanted:
        given = {"counters": counters, "deadline": deadline, "again": again or None}
        told = many.of_problem("profile", gpu, chosen, given)
        code = many.run_errands(fleet, gpu, told, (each.problem for each in iterations))
        answered = _reply(Profiles(list(recorded(tree, iterations))), problems)
        return replace(answered, exit_code=max(code, answered.exit_code))
    plan = Plan(tree, gpu, device, tuple(iterations), MeasureOptions().settings(gpu), again=again)
    with reporting(len(iterations)) as reporter:
        results = profile_iterations(plan, reporter, counters=counters, deadline_s=deadline)
    if results.remedy is not None:
        problems += reported([f"tilebench: {results.remedy}"])
    return _reply(results, problems)


def _reply(results: Profiles, problems: tuple[str, ...]) -> Reply[list[ProfileRecord]]:
    found = results.records
    return Reply(found, lambda: "\n\n".join(map(words.verdict, found)), results.exit_code, problems)
