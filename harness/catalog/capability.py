"""The compute capability behind an architecture's name."""


def capability(arch: str) -> tuple[int, int]:
    """Major and minor of a name such as ``sm_90a``: (9, 0)."""
    digits = arch.removeprefix("sm_").rstrip("af")
    return int(digits[:-1]), int(digits[-1])
