def examine(): return []
def table(f): return ""
