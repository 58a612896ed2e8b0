"""The table of a fleet, as a terminal shows it."""

from rich.console import Console

from harness.extras.fleet.table import FleetRow, drawn


def test_a_row_for_each_gpu_in_one_line_each() -> None:
    rows = [
        FleetRow("node-1", "0", "matmul_bf16fp32_8x8x8", 3, 4, "[red]building[/] 4 iterations" * 9),
        FleetRow("node-2", "7"),
    ]
    console = Console(width=100)
    with console.capture() as captured:
        console.print(drawn(rows, 12))
    header, first, second, caption = captured.get().rstrip().splitlines()
    assert header.split() == ["host", "GPU", "problem", "done", "left", "last", "line"]
    assert first.split()[:5] == ["node-1", "0", "matmul_bf16fp32_8x8x8", "3", "4"]
    assert "[red]building[/]" in first
    assert second.split() == ["node-2", "7"]
    assert caption.strip() == "12 problems wait"
