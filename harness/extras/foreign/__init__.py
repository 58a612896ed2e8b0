"""Trees of tuning scripts that were made elsewhere: an audit of what they get wrong, and a bench of their kernels."""
