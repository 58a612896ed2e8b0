"""The verb tune: search a family's space, and pin the winner as the next iteration."""

from typing import Annotated

from cyclopts import Parameter

from harness import gpus
from harness.cli.app import app, emit
from harness.cli.options import Choice, Manner
from harness.errors import ExitCode, UsageError
from harness.problem import parse_shape_key
from harness.progress import console
from harness.tree import Tree, check_model
from harness.tune.run import Tuned, TunePlan
from harness.tune.run import tune as carry_out
from harness.tune.space import named_family, own_family, words


@app.command
def tune(
    choice: Choice = Choice(),
    manner: Manner = Manner(),
    *,
    family: Annotated[
        list[str] | None, Parameter(help="A family such as pipelined, several if repeated; the problem's own else.")
    ] = None,
    carver: Annotated[bool, Parameter(help="Start from the suggestions of tilelang.carver too.")] = True,
    parent: Annotated[
        str | None, Parameter(name=("--from", "--parent"), help="The winner's parent; the newest iteration else.")
    ] = None,
) -> ExitCode:
    """Race the configurations of a family's space against the library, and pin the winner as the next iteration."""
    if choice.shape is None or choice.model is None:
        raise UsageError("tune needs --shape and --model, e.g. --shape matmul_bf16fp32_4096x4096x4096 --model tuner")
    if choice.iter is not None:
        raise UsageError("tune searches a family's space, not an iteration; leave --iter out")
    problem = parse_shape_key(choice.shape)
    check_model(choice.model)
    gpu, device = gpus.resolve(choice.gpu, force=manner.force)
    families = tuple(named_family(each, gpu) for each in family or (own_family(problem, gpu),))
    plan = TunePlan(
        tree=Tree.here(),
        gpu=gpu,
        device=device,
        problem=problem,
        model=choice.model,
        families=families,
        settings=manner.settings(gpu),
        carver=carver,
        again=manner.again,
        parent=parent,
    )
    return _report(plan, carry_out(plan), choice)


def _report(plan: TunePlan, tuned: Tuned, choice: Choice) -> ExitCode:
    surveyed = tuned.surveyed
    console.print(
        f"{len(surveyed.entries)} candidates, {surveyed.refused} refused by the family; {surveyed.carver}", markup=False
    )
    pick, iteration = tuned.pick, tuned.iteration
    if choice.json:
        emit({"pick": pick, "path": iteration.path if iteration else None, "measured": tuned.measured})
        return ExitCode.PASSED if pick else ExitCode.REJECTED
    if pick is None or iteration is None:
        console.print(f"no candidate passed; the first said: {tuned.first_failure}", markup=False)
        return ExitCode.REJECTED
    print(f"{plan.tree.short(iteration.path)}: {words(pick.config)}")
    if pick.ratio is not None:
        level = f"level with {len(pick.ties)} more" if pick.ties else "leads alone"
        print(f"ratio {pick.ratio:.4f} [{pick.ratio_low:.4f}, {pick.ratio_high:.4f}], {level}")
    print(f"{tuned.measured} measured, {tuned.reused} known before")
    return ExitCode.PASSED
