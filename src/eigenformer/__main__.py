"""Runs the command line with ``python -m eigenformer``."""

from eigenformer.cli import program

if __name__ == "__main__":
    program()
