"""The order of a block's calls in its CUDA graph: each call waits for all of the call before it.

Two calls that run at once share what one leaves idle. A caller gains that only where no launch reads what another
wrote.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from itertools import accumulate

Edge = tuple[int, int]  # the number of the node that waits, and of the node that it waits for


def complaint_of_order(nodes: int, edges: Sequence[Edge], calls: int) -> str:
    """The complaint about a graph of ``calls`` calls; empty if they follow each other."""
    each, rest = divmod(nodes, calls)
    if rest or not nodes:
        return f"{calls} calls of a block run {nodes} kernels; each call must do its own work, no more and no less"
    whole = set(_boundaries(nodes, edges))
    early = next((number for number in range(1, calls) if number * each not in whole), None)
    return "" if early is None else f"call {early + 1} of a block does not wait for call {early} to end"


def complaint_of_lead_in(lead_in: Sequence[str], calls: Sequence[str], count: int) -> str:
    """The complaint about a lead-in that has other nodes than each of ``count`` calls; empty if it has the same."""
    expected = {node: count * times for node, times in Counter(lead_in).items()}
    return "" if Counter(calls) == expected else "the call before a timed block runs other kernels than those in it"


def _boundaries(nodes: int, edges: Sequence[Edge]) -> Iterator[int]:
    """The lengths of those prefixes of a topological order for which all later nodes wait, whole."""
    waits: dict[int, list[int]] = {node: [] for node in range(nodes)}
    for later, earlier in edges:
        waits[later].append(earlier)
    order = tuple(TopologicalSorter(waits).static_order())
    position = {node: place for place, node in enumerate(order)}
    before: list[int] = []  # of each node in order: the set of those it waits for, as bits
    for node in order:
        seen = 0
        for place in (position[each] for each in waits[node]):
            seen |= before[place] | 1 << place
        before.append(seen)
    prefixes = [(~seen & (seen + 1)).bit_length() - 1 for seen in before]  # as long as all of it is waited for
    shortest = list(accumulate(reversed(prefixes), min))[::-1]
    return (length for length in range(1, nodes) if shortest[length] >= length)
