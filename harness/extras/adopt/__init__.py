"""Adoption: examples made elsewhere become operators, with their own inputs, reference and kernel."""
