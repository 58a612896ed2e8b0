"""Authoring: new iterations, and the ladders that a tree starts with."""
