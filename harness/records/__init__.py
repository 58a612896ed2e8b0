"""The records: what was measured, immutable and appended."""
