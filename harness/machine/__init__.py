"""The machine: GPUs by NVML, cores, memory, files, signals and progress."""
