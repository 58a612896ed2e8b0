"""It has no kernel, and prints no figures."""

print("done")
