"""It has no kernel, and its own verification fails."""

print("VERIFY: FAIL max_abs_err=3.0\nTFLOPS: 7.5 time_ms: 0.25")
