"""Calls of CUDA by its Python bindings: each answers first with an error code."""

from typing import Any


def checked(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a call returned besides its error code. Raises RuntimeError where that names an error."""
    error, *values = answer
    if int(error) != 0:
        raise RuntimeError(f"CUDA: {error.name}")
    return tuple(values)
