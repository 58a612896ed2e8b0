"""Measurements of the harness itself: agreement, tricks, faults, interruption, sensitivity and pace."""

from harness.extras.selftest import adversaries, agreement, faults, interruption, pace, sensitivity

__all__ = ["adversaries", "agreement", "faults", "interruption", "pace", "sensitivity"]
