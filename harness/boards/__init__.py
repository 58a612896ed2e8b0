"""Boards: what readers make of the records."""
