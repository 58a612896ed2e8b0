"""The harness measured by itself: does it agree with the truth, survive being killed, and save time?"""

from harness.selftest import agreement, interruption, pace

__all__ = ["agreement", "interruption", "pace"]
