"""Fixtures of the training tests: a cache of their own, and a table of molecules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.training.samples import SMALL, molecule_rows, write_table


@pytest.fixture(scope="package", autouse=True)
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EIGENFORMER_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Models this small are slower on several threads than on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="package")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("rdkit")
    return write_table(tmp_path_factory.mktemp("table") / "molecules.csv", molecule_rows())


@pytest.fixture(scope="package")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on the table."""
    from eigenformer.cli import main

    out = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", str(table), "--target", "weight", "--out", str(out), *SMALL]) == 0
    return out
