"""The table of a fleet, as a terminal shows it."""

from rich.console import Console

from harness.extras.fleet.table import FleetRow, drawn

LONG = "causalattention_bf16fp32_16x16x16x1024x128x128"
ROWS = [
    FleetRow("node-1.cluster.internal", "0", LONG, 3, 4, f"{LONG}: [red]building[/]  {LONG} iter004" + "x" * 90),
    FleetRow("tilebench-gpus-worker-x7k2p", "7"),
]


def shown(width: int, height: int = 24) -> list[str]:
    console = Console(width=width, height=height)
    with console.capture() as captured:
        console.print(drawn(ROWS, 12, console.size))
    return captured.get().rstrip().splitlines()


def test_a_wide_terminal_has_one_line_for_each_gpu() -> None:
    header, first, second, caption = shown(160)
    assert header.split() == ["host", "GPU", "problem", "done", "left", "last", "line"]
    assert first.split()[:5] == ["node-1", "0", LONG, "3", "4"]
    assert " [red]building[/] iter004xx" in first  # the problem is said once
    assert second.split() == ["…us-worker-x7k2p", "7"]
    assert caption.strip() == "12 problems wait"


def test_a_terminal_of_80_columns_has_all_of_it_too() -> None:
    header, first, under, *_ = shown(80)
    assert header.split() == ["host", "GPU", "problem,", "and", "its", "last", "line", "done", "left"]
    assert first.split() == ["node-1", "0", f"{LONG[:44]}…", "3", "4"]
    assert under.strip().startswith("[red]building[/] iter004xx")


def test_a_low_terminal_says_how_many_rows_it_lacks() -> None:
    assert len(shown(80, 7)) == 4
    assert shown(80, 7)[-1].strip() == "12 problems wait; 1 more GPUs"
