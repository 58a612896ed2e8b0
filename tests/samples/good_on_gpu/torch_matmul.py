"""The library's call, which a user would make instead."""

from baselines import library

PARENT = None


def build(problem):
    return library(problem)
