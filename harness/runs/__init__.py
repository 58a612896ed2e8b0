"""Runs: iterations taken through the judge, and what is written beside them."""
