"""It never gets as far as a kernel."""

while True:
    pass
