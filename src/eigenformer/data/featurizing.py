"""Many SMILES → graphs, on all cores.

RDKit holds Python's global lock while it works, so processes are used instead of threads.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from eigenformer.data.molecules import Featurizer, MoleculeError, MoleculeGraph, featurizer
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.reporting import Reporter
from eigenformer.stopping import leave_signals

# Fewer molecules are finished before the processes have started.
_MANY = 2000
_CHUNK = 64


def featurize_all(
    smiles: Sequence[str],
    name: str,
    reporter: Reporter,
    limits: Limits = DEFAULT_LIMITS,
    descriptors: Sequence[str] = (),
) -> list[MoleculeGraph | MoleculeError]:
    """Featurises each SMILES with the featuriser ``name``, and computes descriptors.

    Returns, in order, the graph of each SMILES, or the error that explains why there is none.
    """
    make = featurizer(name, limits, descriptors)
    chunks = [smiles[start : start + _CHUNK] for start in range(0, len(smiles), _CHUNK)]
    results: list[MoleculeGraph | MoleculeError] = []
    with reporter.step("molecules", len(smiles), unit="molecules") as step:
        for part in _spread(chunks, partial(_featurize, make), len(smiles)):
            results += part
            step.advance(len(part))
    return results


def _spread(
    chunks: list[Sequence[str]],
    work: Callable[[Sequence[str]], list[MoleculeGraph | MoleculeError]],
    count: int,
) -> Iterator[list[MoleculeGraph | MoleculeError]]:
    # If processes cannot be forked, each of them would run the user's script again.
    if count < _MANY or sys.platform != "linux" or (cores := len(os.sched_getaffinity(0))) < 2:
        yield from map(work, chunks)
        return
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(cores, fork, follow_parent) as pool:
        yield from pool.map(work, chunks)


def _featurize(make: Featurizer, smiles: Sequence[str]) -> list[MoleculeGraph | MoleculeError]:
    results: list[MoleculeGraph | MoleculeError] = []
    for text in smiles:
        try:
            results.append(make(text.strip()))
        except MoleculeError as error:
            results.append(error)
    return results


def follow_parent() -> None:
    """Ends this process when its parent ends for any reason; Ctrl-C is left to the parent."""
    leave_signals()
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
