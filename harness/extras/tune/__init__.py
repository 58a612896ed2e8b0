"""Tuning: race a family's configurations in paired blocks, and pin the winner as the next iteration.

Nothing here judges: a candidate is an iteration in a scratch tree, and the judge's pipeline measures it.
"""
