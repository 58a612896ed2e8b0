"""It does not parse."""


def build(problem:
    return None
