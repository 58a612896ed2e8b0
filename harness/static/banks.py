"""Bank conflicts, where the generated source shows the address."""


def conflicts(source: str) -> dict[str, tuple[str, ...]]:
    return {}
