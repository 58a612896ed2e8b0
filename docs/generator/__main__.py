"""The command: ``python -m docs.generator [--check]``."""

import argparse
import sys

from docs.generator.pages import outdated, pages, update


def main() -> int:
    """Write every page anew; with ``--check`` change nothing and return 1 where a page is out of date."""
    parser = argparse.ArgumentParser(prog="docs.generator", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if anything is out of date")
    if parser.parse_args().check:
        found = [line for page in pages() for line in outdated(page)]
        print("\n".join([*found, "run: make docs"] if found else ["the documentation is up to date"]))
        return bool(found)
    for page in pages():
        if update(page):
            print(f"wrote {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
