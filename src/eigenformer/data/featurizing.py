"""Many SMILES → graphs, on all cores: RDKit's work is done in Python's lock, so by processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from eigenformer.data.molecules import MoleculeError, MoleculeGraph, featurizer
from eigenformer.reporting import Reporter

# Fewer are done before the processes are up.
_MANY = 2000
_CHUNK = 64


def featurize_all(
    smiles: Sequence[str], name: str, reporter: Reporter
) -> list[MoleculeGraph | MoleculeError]:
    """The graph of each SMILES by the featuriser ``name``, or why there is none, in order."""
    featurizer(name)
    chunks = [smiles[start : start + _CHUNK] for start in range(0, len(smiles), _CHUNK)]
    results: list[MoleculeGraph | MoleculeError] = []
    with reporter.step("molecules", len(smiles), unit="molecules") as step:
        for part in _spread(chunks, name, len(smiles)):
            results += part
            step.advance(len(part))
    return results


def _spread(
    chunks: list[Sequence[str]], name: str, count: int
) -> Iterator[list[MoleculeGraph | MoleculeError]]:
    work = partial(_featurize, name)
    # Where processes cannot be forked, each would run the user's script again.
    if count < _MANY or sys.platform != "linux" or (cores := len(os.sched_getaffinity(0))) < 2:
        yield from map(work, chunks)
        return
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(cores, fork, _follow_parent) as pool:
        yield from pool.map(work, chunks)


def _featurize(name: str, smiles: Sequence[str]) -> list[MoleculeGraph | MoleculeError]:
    make = featurizer(name)
    results: list[MoleculeGraph | MoleculeError] = []
    for text in smiles:
        try:
            results.append(make(text.strip()))
        except MoleculeError as error:
            results.append(error)
    return results


def _follow_parent() -> None:
    """Ends with the process that started this one, however that ends; Ctrl-C is for that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
