"""The verb profile: what bounds a kernel, why, and what to try next."""

from typing import Annotated

from cyclopts import Parameter

from harness.boards import tables
from harness.catalog import gpus
from harness.catalog.tree import Iteration, Tree
from harness.cli.app import app, emit
from harness.cli.options import Choice, Manner, check_seconds
from harness.errors import ExitCode, InfrastructureError, UsageError
from harness.extras.profile import words
from harness.extras.profile.run import ProfilePlan, Profiles, leaders
from harness.extras.profile.run import profile as profile_iterations
from harness.judge.facts.gpu import CPU, Gpu
from harness.machine.progress import console, reporting


@app.command
def profile(
    choice: Choice = Choice(),
    *,
    counters: Annotated[bool, Parameter(help="Read counters with ncu; without, names and durations only.")] = True,
    force: Annotated[bool, Parameter(negative="", help="Run a key that is not this GPU's.")] = False,
    again: Annotated[bool, Parameter(negative="", help="Profile again what is profiled already.")] = False,
    deadline: Annotated[float, Parameter(help="Seconds for one iteration at most.")] = 180.0,
) -> ExitCode:
    """Profile iterations with ncu, the leader of each problem where none is named: what bounds them, what to try."""
    check_seconds("deadline", deadline)
    tree = Tree.here()
    gpu, device = gpus.resolve(choice.gpu, force=force)
    if gpu.is_cpu:
        why = "a CPU has none that ncu reads" if choice.gpu == CPU else "this machine has no NVIDIA GPU"
        raise InfrastructureError(f"profile reads a GPU's counters, and {why}; run it where the GPU is, as GPU=h200")
    iterations = leaders(tree, gpu, choice.selection) if choice.iter is None else _named(tree, gpu, choice)
    plan = ProfilePlan(
        tree=tree,
        gpu=gpu,
        device=device,
        iterations=iterations,
        settings=Manner().settings(gpu),
        counters=counters,
        again=again,
        deadline_s=deadline,
    )
    with reporting(len(iterations)) as reporter:
        results = profile_iterations(plan, reporter)
    return _report(results, choice)


def _named(tree: Tree, gpu: Gpu, choice: Choice) -> tuple[Iteration, ...]:
    iterations, misplaced = tree.scan(gpu.key, choice.selection)
    for each in misplaced:
        console.print(each.reason, markup=False)
    if not iterations:
        raise UsageError(tables.no_iteration(gpu.key, choice.selection))
    return tuple(iterations)


def _report(results: Profiles, choice: Choice) -> ExitCode:
    if choice.json:
        emit(results.records)
    else:
        print("\n\n".join(words.verdict(record) for record in results.records))
    if results.remedy is not None:
        console.print(f"tilebench: {results.remedy}", markup=False)
    return results.exit_code
