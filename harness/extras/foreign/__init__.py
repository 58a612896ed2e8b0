"""Trees of tuning scripts that were not made here: what they get wrong, without running anything of them."""
