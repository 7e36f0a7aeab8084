"""The process that tries the inputs, one after the other; it may crash, and is then replaced."""

from __future__ import annotations

import os
import random
import resource
import sys
import time
import traceback
import warnings
from pathlib import Path

import eigenformer

PACKAGE = str(Path(eigenformer.__file__).parent)
MOST_MEMORY = 2 << 30


def is_ours(error: BaseException) -> bool:
    """Whether an exception is a sentence of the package, not an accident within it."""
    if type(error).__module__.startswith("eigenformer"):
        return True
    if isinstance(error, OSError) and error.filename:  # the command line says which file
        return True
    frames = traceback.extract_tb(error.__traceback__)
    ours = bool(frames) and frames[-1].filename.startswith(PACKAGE)
    return (
        isinstance(error, ValueError | ImportError)
        and type(error) in (ValueError, ImportError)
        and ours
    )


def attack(seed: int, number: int, desk: object, only: str = "") -> tuple[str, str]:
    """Tries one input; returns the name of its subject, and what is wrong with the answer.

    The subject is a random one unless ``only`` names it.
    """
    from tests.fuzz.subjects import SUBJECTS

    rng = random.Random(f"{seed}-{number}")
    (subject,) = rng.choices(list(SUBJECTS), list(SUBJECTS.values()))
    subject = next((other for other in SUBJECTS if other.__name__ == only), subject)
    try:
        subject(rng, desk)  # type: ignore[arg-type]
    except Exception as error:
        if not is_ours(error):
            lines = traceback.format_exception(error)
            return subject.__name__, "".join(lines)
    return subject.__name__, ""


def work(seed: int, first: int, last: int, folder: Path, only: str = "") -> None:
    """Tries the inputs from ``first`` to ``last``; says before each which it is."""
    import torch

    from tests.fuzz.desk import Desk

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_DATA, (6 << 30, 6 << 30))
    sys.stdin.close()
    desk = Desk(folder)
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for number in range(first, last):
        out.write(f"{number}\n")
        start = time.process_time()
        name, problem = attack(seed, number, desk, only)
        memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if memory > MOST_MEMORY:
            problem = f"{memory / 2**30:.1f} GiB of memory\n{problem}"
        if (seconds := time.process_time() - start) > 10:
            problem = f"{seconds:.0f} s\n{problem}"
        if problem:
            (folder / f"finding-{number}.txt").write_text(f"{name}\n{problem}")
        out.write(f"{number} {name} {'bad' if problem else 'ok'}\n")
        if memory > MOST_MEMORY:
            return


if __name__ == "__main__":
    work(*map(int, sys.argv[1:4]), Path(sys.argv[4]), *sys.argv[5:])
