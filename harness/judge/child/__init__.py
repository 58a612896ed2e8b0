"""What runs in child processes: referee, baseline, contestant."""
