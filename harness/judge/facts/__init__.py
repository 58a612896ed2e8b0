"""What a judgement is about: problem, operator, compiled kernel, and the hashes of all that decides."""
