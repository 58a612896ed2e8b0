"""The profile of an iteration: what ncu counted in one launch of its kernel, what that says, and what to try next."""
