"""The harness measured by itself: does it agree with the truth, see through tricks, survive kills, save time?"""

from harness.selftest import adversaries, agreement, interruption, pace

__all__ = ["adversaries", "agreement", "interruption", "pace"]
