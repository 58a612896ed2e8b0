"""The order of the calls in a block's graph."""

import pytest

from harness.judge.child.order import Edge, complaint_of_lead_in, complaint_of_order


def chain(nodes: int) -> list[Edge]:
    return [(node + 1, node) for node in range(nodes - 1)]


@pytest.mark.parametrize(("nodes", "calls"), [(1, 1), (5, 5), (12, 4), (600, 200)])
def test_calls_in_a_chain_are_in_order(nodes: int, calls: int) -> None:
    assert complaint_of_order(nodes, chain(nodes), calls) == ""


def test_a_call_may_fork_within_itself_and_join() -> None:
    fork = [(1, 0), (2, 0), (3, 1), (3, 2)]
    twice = [*fork, (4, 3), *((later + 4, earlier + 4) for later, earlier in fork)]
    assert complaint_of_order(8, twice, 2) == ""


def test_a_call_may_consist_of_kernels_side_by_side() -> None:
    assert complaint_of_order(4, [(2, 0), (2, 1), (3, 0), (3, 1)], 2) == ""


def test_calls_on_two_streams_are_not_in_order() -> None:
    two_streams = [(node + 2, node) for node in range(4)]
    assert complaint_of_order(6, two_streams, 6) == "call 2 of a block does not wait for call 1 to end"


def test_one_call_that_starts_early_is_found() -> None:
    edges = [edge for edge in chain(6) if edge != (4, 3)] + [(4, 2), (5, 3)]
    assert complaint_of_order(6, edges, 6) == "call 5 of a block does not wait for call 4 to end"


def test_a_call_that_starts_before_the_last_kernel_of_another_is_found() -> None:
    edges = [(1, 0), (2, 0), (3, 2), (3, 1)]  # the second call's first kernel waits for the first call's first alone
    assert complaint_of_order(4, edges, 2) == "call 2 of a block does not wait for call 1 to end"


def test_calls_share_no_kernel() -> None:
    assert complaint_of_order(3, chain(3), 2).startswith("2 calls of a block run 3 kernels")
    assert complaint_of_order(0, [], 2).startswith("2 calls of a block run 0 kernels")


@pytest.mark.parametrize(
    ("lead_in", "calls", "same"),
    [
        (["fill", "gemm"], ["fill", "gemm", "gemm", "fill"], True),
        (["gemm", "gemm"], ["gemm"] * 4, True),
        (["pack", "gemm"], ["gemm", "gemm"], False),  # it works ahead
        (["pack"], ["gemm", "gemm"], False),
        (["gemm"], ["gemm", "wait"], False),
    ],
)
def test_the_call_before_a_block_runs_what_each_call_of_it_runs(
    lead_in: list[str], calls: list[str], same: bool
) -> None:
    assert (complaint_of_lead_in(lead_in, calls, 2) == "") == same
