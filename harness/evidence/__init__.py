"""Build evidence: what the compilers say of a kernel."""
