"""One kernel, an addition too small to hide what calling it costs, in each spelling; a module a kind of device."""
