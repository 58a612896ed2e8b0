"""Host time per call: what each of TileLang's spellings and execution backends costs before a kernel even starts."""
