"""The fleet: many GPUs, of one host or of a Ray cluster, work on one notebook, each on one problem at a time."""
