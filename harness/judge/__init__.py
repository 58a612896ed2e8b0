"""The judgement: what decides a verdict or a figure. Its hash is in every record."""
