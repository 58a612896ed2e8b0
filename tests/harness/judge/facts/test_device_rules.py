"""What differs between measuring on a GPU and on a CPU."""

from harness.judge.facts.device_rules import CPU_RULES, GPU_RULES


def test_a_gpu_rests_before_blocks_of_one_long_launch() -> None:
    assert GPU_RULES.rest_s(block_ms=12.0) == 0.048
    assert GPU_RULES.rest_s(block_ms=5.5) == 0


def test_a_cpu_does_not_rest() -> None:
    assert CPU_RULES.rest_s(block_ms=500.0) == 0
