"""Mutations of bytes, texts, tables and plain values, all drawn from one generator."""

from __future__ import annotations

import contextlib
import copy
import math
import random
import struct
from collections.abc import Callable
from typing import Any

import torch

INTEGERS = (0, 1, -1, 2, 7, 127, 255, 256, 65535, 10**6, 2**31 - 1, 2**31, 2**32, 2**53, 2**62)
INTEGERS = (*INTEGERS, 2**63 - 1, 2**63, -(2**63), 2**64, 10**18, 10**30)
FLOATS = (0.0, -0.0, 0.5, 1e-320, 1e20, 1e39, 1e300, 1e308, math.inf, -math.inf, math.nan)
TEXTS = (
    "",
    " ",
    "x",
    "../../etc/passwd",
    "nan",
    "inf",
    "-1",
    "1e400",
    "9" * 400,
    "=1+1",
    "\0",
    "é",
)
TEXTS = (*TEXTS, "\n", '"', "'", ",", ";", "\t", "true", "null", "𝜑", "a" * 3000, "%s%n", "{0}")
SMILES = (
    "C",
    "[H]",
    "*",
    "C.C",
    "c1ccccc1",
    "[Xe]",
    "[C@@H](F)(Cl)Br",
    "C1CC",
    "[13C+5]",
    "F/C=C/F",
)
SMILES = (
    *SMILES,
    "[Na+].[Cl-]",
    "C%99CC%99",
    "N->[Cu]",
    "[U]",
    "C(C)(C)(C)(C)C",
    "c1cccc1",
    "[nH]",
)

TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn)
TYPES = (*TYPES, torch.int8, torch.int64, torch.bool, torch.uint8, torch.complex64)

Random = random.Random


def scalar(rng: Random) -> Any:
    """An interesting value."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.choice(INTEGERS)
    if kind == 1:
        return rng.choice(FLOATS)
    if kind == 2:
        return rng.choice(TEXTS)
    return rng.choice((None, True, False, [], {}, [[]], {"": None}, [1, "a"], {"kind": "x"}))


def deep(levels: int) -> Any:
    """A list in a list in a list."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def plain(rng: Random, value: Any) -> Any:
    """Plain values with one to three of their parts changed, removed or added."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        value = _one(rng, value)
    return value


def _one(rng: Random, value: Any) -> Any:
    places: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        part = pending.pop()
        keys = part.keys() if isinstance(part, dict) else range(len(part)) if _list(part) else ()
        for key in keys:
            places.append((part, key))
            pending.append(part[key])
    if not places or rng.random() < 0.02:
        return deep(rng.choice((5, 150, 3000))) if rng.random() < 0.3 else scalar(rng)
    parent, key = rng.choice(places)
    action = rng.randrange(8)
    if action == 0:
        del parent[key]
    elif action == 1 and isinstance(parent, dict):
        parent[rng.choice(TEXTS)] = parent.pop(key)
    elif action == 2:
        other, place = rng.choice(places)
        with contextlib.suppress(RecursionError):  # a value that was made too deep before
            parent[key] = copy.deepcopy(other[place] if _has(other, place) else None)
    elif action == 3 and _list(parent):
        parent.extend([parent[key]] * rng.choice((1, 2, 50)))
    elif action == 4 and isinstance(parent[key], int | float):
        parent[key] = -parent[key] if rng.random() < 0.5 else parent[key] * rng.choice((2, 10**9))
    else:
        parent[key] = scalar(rng)
    return value


def _list(value: Any) -> bool:
    return isinstance(value, list)


def _has(parent: Any, key: Any) -> bool:
    return key in parent if isinstance(parent, dict) else key < len(parent)


def raw(rng: Random, data: bytes) -> bytes:
    """Bytes with a few of them changed, cut, repeated or inserted."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        place = rng.randrange(len(changed) + 1)
        action = rng.randrange(7)
        if action <= 2 and place < len(changed):
            changed[place] = rng.randrange(256)
        elif action == 3:
            number = rng.choice(INTEGERS) % 2**64
            size = rng.choice((1, 2, 4, 8))
            changed[place : place + size] = struct.pack("<Q", number)[:size]
        elif action == 4:
            del changed[place : place + rng.choice((1, 2, 8, 100, len(changed)))]
        elif action == 5:
            start = rng.randrange(len(changed) + 1)
            changed[place:place] = changed[start : start + rng.choice((1, 4, 32, 300))]
        else:
            changed[place:place] = bytes(rng.randrange(256) for _ in range(rng.randrange(9)))
    return bytes(changed)


def tensor(rng: Random, values: torch.Tensor) -> torch.Tensor:
    """A tensor of another type or shape, or with other values."""
    action = rng.randrange(3)
    if action == 0:
        return values.to(rng.choice(TYPES))
    if action == 1:
        return values.new_zeros([size + rng.choice((-1, 0, 1)) for size in values.shape])
    return (values * rng.choice(FLOATS)).to(values.dtype)


def text(rng: Random, content: str) -> str:
    """A text with a few of its pieces replaced, repeated or removed."""
    pieces = list(content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(pieces) + 1)
        action = rng.randrange(4)
        if action == 0:
            pieces[place : place + rng.choice((0, 1, 5))] = rng.choice((*TEXTS, *SMILES))
        elif action == 1:
            del pieces[place : place + rng.choice((1, 3, 40))]
        elif action == 2:
            start = rng.randrange(len(pieces) + 1)
            pieces[place:place] = pieces[start : start + rng.choice((1, 10, 60))]
        else:
            pieces[place:place] = str(rng.choice((*INTEGERS, *FLOATS)))
    return "".join(pieces)


def table(rng: Random, rows: list[list[str]]) -> list[list[str]]:
    """A table with a few of its cells, rows or columns changed."""
    rows = [list(row) for row in rows]
    for _ in range(rng.choice((1, 1, 2, 4))):
        row = rng.choice(rows)
        place = rng.randrange(len(row) + 1)
        action = rng.randrange(8)
        if action <= 3 and place < len(row):
            row[place] = str(rng.choice((*TEXTS, *SMILES, *INTEGERS, *FLOATS)))
        elif action == 4:
            del row[place : place + 1]
        elif action == 5:
            row.insert(place, rng.choice(TEXTS))
        elif action == 6:
            rows.insert(rng.randrange(len(rows) + 1), list(rng.choice(rows)))
        elif len(rows) > 1:
            rows.remove(row)
        if not any(rows):
            return [[]]
        rows = [row for row in rows if row] or [[""]]
    return rows


Mutation = Callable[[Random, Any], Any]
