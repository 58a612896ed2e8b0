"""Writes the generated parts of the documentation, from the code and the records: ``make docs``."""
