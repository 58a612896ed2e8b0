"""The power ceiling: what a chip's tensor cores reach under its power limit with nothing to move."""
