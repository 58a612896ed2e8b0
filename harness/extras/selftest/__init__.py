"""The harness measured by itself: does it agree with the truth, see through tricks, survive faults, save time?"""

from harness.extras.selftest import adversaries, agreement, faults, interruption, pace, sensitivity

__all__ = ["adversaries", "agreement", "faults", "interruption", "pace", "sensitivity"]
