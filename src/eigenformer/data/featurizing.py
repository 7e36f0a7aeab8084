"""Many SMILES → graphs, on all cores.

RDKit holds Python's global lock while it works, so processes are used instead of threads.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sys
import threading
from collections import deque
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
# Chunks that are computed before they are needed.
_AHEAD = 64


def featurize_all(
    smiles: Sequence[str],
    name: str,
    reporter: Reporter,
    limits: Limits = DEFAULT_LIMITS,
    descriptors: Sequence[str] = (),
) -> list[MoleculeGraph | MoleculeError]:
    """Returns all that :func:`featurize_each` yields."""
    return list(featurize_each(smiles, name, reporter, limits, descriptors))


def featurize_each(
    smiles: Sequence[str],
    name: str,
    reporter: Reporter,
    limits: Limits = DEFAULT_LIMITS,
    descriptors: Sequence[str] = (),
) -> Iterator[MoleculeGraph | MoleculeError]:
    """Featurises each SMILES with the featuriser ``name``, and computes descriptors.

    Yields, in order, the graph of each SMILES, or the error that explains why there is none. Only
    a few graphs are in memory at the same time.
    """
    make = featurizer(name, limits, descriptors)
    chunks = (smiles[start : start + _CHUNK] for start in range(0, len(smiles), _CHUNK))
    with reporter.step("molecules", len(smiles), unit="molecules") as step:
        for part in _spread(chunks, partial(_featurize, make), len(smiles)):
            yield from part
            step.advance(len(part))


def _spread(
    chunks: Iterator[Sequence[str]],
    work: Callable[[Sequence[str]], list[MoleculeGraph | MoleculeError]],
    count: int,
) -> Iterator[list[MoleculeGraph | MoleculeError]]:
    # If processes cannot be forked, each of them would run the user's script again.
    if count < _MANY or sys.platform != "linux" or (cores := len(os.sched_getaffinity(0))) < 2:
        yield from map(work, chunks)
        return
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(cores, fork, follow_parent) as pool:
        waiting = deque(pool.submit(work, part) for part in itertools.islice(chunks, _AHEAD))
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(pool.submit(work, part) for part in itertools.islice(chunks, 1))


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
