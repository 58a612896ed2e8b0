"""Host time per call of each of TileLang's spellings and execution backends, before a kernel starts."""
