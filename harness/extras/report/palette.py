"""The colours of both themes, as variables of the page's style sheet. A shape repeats what a colour says."""

import re
from typing import Final

# Name -> light, dark. The contrast on paper is at least 4.5 for text, 3 for marks (WCAG 2.2, 1.4.3 and 1.4.11).
PALETTE: Final = {
    "paper": ("#ffffff", "#14171c"),
    "raised": ("#f4f6f8", "#1d2229"),
    "ink": ("#1b2027", "#e8ebef"),
    "soft": ("#59636f", "#a0abb8"),
    "rule": ("#d5dae0", "#39414c"),
    "accent": ("#0b62b8", "#74b6ff"),
    "good": ("#0a7240", "#56cf8d"),
    "bad": ("#bd2222", "#ff8a80"),
    "warn": ("#8f5600", "#f2b54e"),
    "added": ("#dff5e6", "#143a26"),
    "removed": ("#fde6e4", "#48201f"),
}


def variable(name: str) -> str:
    assert name in PALETTE
    return f"var(--{name})"


def style() -> str:
    """The variables as a style sheet; ``light-dark`` follows the reader's theme."""
    colours = "; ".join(f"--{name}: light-dark({light}, {dark})" for name, (light, dark) in PALETTE.items())
    return f":root {{ {colours} }}\n"


def coloured(svg: str, *, dark: bool) -> str:
    """A picture with colours in place of the style sheet's variables."""
    return re.sub(r"var\(--([a-z]+)\)", lambda match: PALETTE[match[1]][dark], svg)
