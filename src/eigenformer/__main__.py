"""Runs the command line with ``python -m eigenformer``."""

from eigenformer.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
