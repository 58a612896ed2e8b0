"""Candidates for an H200 on a machine without one: real iterations in a scratch tree, through contract and build."""

import pytest

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.evidence import toolchain
from harness.extras.scratch_tree import linked_tree
from harness.extras.tune.search import write_candidates
from harness.extras.tune.survey import SpaceEntry, look
from harness.judge.candidate import Settings
from harness.judge.child.brief import Brief
from harness.judge.facts.hashes import families_sha256, judge_sha256
from harness.judge.facts.problem import parse_shape_key
from harness.machine.progress import Quiet
from harness.records.base import Stage, Status
from harness.records.results import Record
from harness.runs.run import Plan, run
from tests.harness.checkout import ROOT

H200 = gpus.find("h200")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(toolchain.find().nvcc is None, reason="needs nvcc; make build installs it"),
]


@pytest.mark.parametrize(
    ("shape", "family"),
    [
        ("matmul_bf16fp32_4096x4096x4096", "kernels.gemm.warp_specialized"),
        ("matmul_bf16fp32_4096x4096x4096", "kernels.gemm.pipelined"),
    ],
)
def test_candidates_of_a_space_build(shape: str, family: str) -> None:
    problem = parse_shape_key(shape)
    found = look(Brief(ROOT, problem, H200, None), (family,), carver=True)
    assert 60 <= len(found.entries) <= 150
    carved = next(entry for entry in found.entries if entry.origin == "carver")
    spilling = {**found.entries[-1].config, "pass_configs": {"tl.disable_tma_lower": True}}
    chosen = (carved, found.entries[-1], SpaceEntry(family, spilling, "space", wrapped=True))
    with linked_tree(Tree(ROOT), "tune") as scratch:
        iterations = write_candidates(scratch, problem, H200, chosen)
        first = iterations[carved.key]
        assert judge_sha256.__wrapped__(scratch.root, "matmul", H200) == judge_sha256.__wrapped__(ROOT, "matmul", H200)
        assert families_sha256(scratch.root, first.path) == families_sha256(ROOT, first.path)
        heard: list[Record] = []
        plan = Plan(scratch, H200, None, tuple(iterations.values()), Settings(0.1), upto=Stage.BUILD, again=True)
        run(plan, Quiet(), heard.append)
    assert not scratch.root.exists()
    assert [record.status for record in heard] == [Status.PASSED] * 3, [record.reason for record in heard]
    assert all(record.build is not None and record.build.kernels for record in heard)
