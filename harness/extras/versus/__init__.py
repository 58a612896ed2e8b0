"""Two environments against each other: what a release of TileLang, torch or Python did to every iteration."""
