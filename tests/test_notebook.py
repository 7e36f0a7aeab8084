"""The notebook runs from its first cell to its last, and its pictures can be drawn."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOK = EXAMPLES / "molecules.ipynb"


def _run_cell(source: str, namespace: dict[str, Any]) -> Any:
    """Runs a cell and returns the value of its last expression, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, NOTEBOOK.name, "exec"), namespace)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), namespace)


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "examples"
    folder.mkdir()
    for table in EXAMPLES.glob("*.csv"):
        shutil.copy(table, folder)
    (tmp_path / "results").symlink_to(EXAMPLES.parent / "results")
    monkeypatch.chdir(folder)
    namespace: dict[str, Any] = {}
    pictures = 0
    for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            shown = _run_cell("".join(cell["source"]), namespace)
            if hasattr(shown, "_repr_png_"):
                pictures += 1
                assert shown._repr_png_().startswith(b"\x89PNG")
    assert pictures == 3
    assert namespace["summary"]["test"] < 0.6  # logp spreads by about 1.3 around its mean
