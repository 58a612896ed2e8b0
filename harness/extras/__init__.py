"""Extras: tools built on the core, which imports none of them."""
