"""Rows of text as columns on a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def print_columns(rows: Sequence[Sequence[str]], right: Collection[int]) -> None:
    """Prints rows, the header first, with the columns ``right`` set to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
