"""Static evidence: what the compilers say of a kernel, read from its cubin, before any GPU has seen it."""
