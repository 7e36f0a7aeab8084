"""Data walks through the package in one direction: each room imports only rooms before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import eigenformer

PACKAGE = Path(eigenformer.__file__).parent

# From the first room to the last. Modules that share a line may import each other.
ROOMS = (
    (
        "options",
        "nearest",
        "limits",
        "lazy",
        "pools",
        "files",
        "reporting",
        "devices",
        "stopping",
        "transfer",
    ),
    ("config", "pretrained"),
    ("targets",),
    ("spectrum", "lanczos", "scalar_mlp", "ragged", "frequencies", "blocks"),
    ("data", "kernels"),
    ("edges", "encoders", "descriptor_encoder", "encodings", "batch_norm", "feed_forward"),
    ("local_branch", "gated_branch", "node_potentials", "spectral_filters"),
    ("parts", "drop_path", "attention", "layer"),
    ("models", "model_folder"),
    ("testing", "export", "self_check"),
    ("training", "trained_model"),
    ("experiments", "estimators", "speed", "hub"),
    ("analysis",),
    ("plots", "pages"),
    ("serving",),
    ("cli",),
)
PLACES = {name: place for place, names in enumerate(ROOMS) for name in names}
FILES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.parent != PACKAGE or path.name not in ("__init__.py", "__main__.py")
]


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """The rooms that a file imports when it is loaded, and the line of each import."""
    pending: list[ast.stmt] = list(ast.parse(path.read_text("utf-8")).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.If | ast.Try | ast.With):
            pending += [child for child in ast.walk(node) if isinstance(child, ast.ImportFrom)]
        names = []
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("eigenformer"):
            parts = (node.module or "").split(".")
            names = parts[1:2] or [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name.split(".")[1] for a in node.names if a.name.startswith("eigenformer.")]
        yield from ((name, node.lineno) for name in names)


def test_every_module_has_a_room():
    assert {room(path) for path in FILES} == set(PLACES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    own = room(path)
    for name, line in imported(path):
        if name not in PLACES:  # the version, say
            continue
        assert PLACES[name] <= PLACES[own], f"line {line}: {own} comes before {name}"
        apart = {own, name}
        assert apart not in ({"data", "kernels"}, {"plots", "pages"}), f"line {line}"
