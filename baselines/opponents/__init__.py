"""Opponents: what else a user could install, one file for each package. Rows of their own kind, never a parent."""
