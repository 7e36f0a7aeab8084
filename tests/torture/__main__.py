"""``python -m tests.torture``, or ``make torture``."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

from tests.torture.torture import Torture


def main() -> int:
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="commands to kill")
    parser.add_argument("--full", type=int, default=50, help="disks to fill (needs root)")
    parser.add_argument("--rivals", type=int, default=20, help="runs to resume twice at once")
    parser.add_argument("--seed", type=int, default=None, help="default: a new one each time")
    parser.add_argument("--minutes", type=float, default=60.0, help="when to stop in any case")
    arguments = parser.parse_args()
    seed = random.randrange(10**6) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="torture-"))
    torture = Torture(folder, seed, arguments.minutes)
    torture.compete(arguments.rivals)
    if arguments.full and os.geteuid() == 0:
        torture.fill(arguments.full)
    elif arguments.full:
        print("no disks are filled: mounting a small one needs root")
    torture.kill(arguments.kills)
    for what, count in torture.done.most_common():
        print(f"{count:5}  {what}")
    print(f"the longest stop took {torture.seconds:.1f} s")
    for failure in torture.failures:
        print(f"FAILED  {failure}\n", file=sys.stderr)
    print(f"{len(torture.failures)} failures")
    if not torture.failures:
        import shutil

        shutil.rmtree(folder)
    return 1 if torture.failures else 0


if __name__ == "__main__":
    sys.exit(main())
