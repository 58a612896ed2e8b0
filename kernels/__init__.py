"""TileLang families: each takes a problem and its tuning parameters and returns a Program."""
