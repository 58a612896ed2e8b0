"""Tuning: a family's space, raced in paired blocks until one configuration leads or several tie; the winner is pinned.

Nothing of the judgement happens here: a candidate is an iteration in a scratch tree, and the line that judges every
iteration judges it.
"""
