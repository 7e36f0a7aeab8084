"""Inputs for the unpickler and the archive reader, guided by the lines of code that they reach.

Needs atheris, which is not among the dependencies of the package (``pip install atheris``):

    python -m tests.fuzz.guided FOLDER -max_total_time=3600 -timeout=10 -rss_limit_mb=2048

The options are those of libFuzzer. ``FOLDER`` keeps the inputs that reach something new, and
``FOLDER/finding-*.txt`` has the traceback of every kind of accident, with its input beside it.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import io
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import atheris  # type: ignore[import-not-found, unused-ignore]

with atheris.instrument_imports(include=["eigenformer.data", "eigenformer.config"]):
    from eigenformer.data.archive import GraphArchive
    from eigenformer.data.store import MANIFEST, _digest, file_digest
    from eigenformer.data.unpickle import load_arrays, load_graphs_from

from eigenformer.targets import NumberTarget
from tests.fuzz import seeds
from tests.fuzz.worker import is_ours


class Guided:
    """Gives every input to one of four readers, told by its first byte.

    Args:
        findings: Where accidents are written.
        work: Where the inputs are files.
    """

    def __init__(self, findings: Path, work: Path) -> None:
        self.findings, self.work = findings, work
        self.counts: collections.Counter[str] = collections.Counter()
        self.readers: tuple[Callable[[bytes], object], ...] = (
            self.pickle,
            self.graph_file,
            self.archive,
            self.zipped_pickle,
        )
        saved = GraphArchive.from_data_list(
            seeds.graphs(), ["train", "val"], ["a", "b"], target=NumberTarget(names=("y",))
        ).save(work / "archive")
        assert saved.path is not None
        self.files = {file.name: file.read_bytes() for file in sorted(saved.path.iterdir())}
        self.manifest = json.loads(self.files[MANIFEST])

    def examples(self) -> list[bytes]:
        """Valid inputs to start from."""
        archives = [bytes([2, i]) + data for i, data in enumerate(self.files.values())]
        pickles = [b"\0" + data for data in seeds.pickles()]
        graphs = [b"\1" + data for data in seeds.torch_files()]
        parts = [seeds.members(data) for data in seeds.torch_files() if data[:2] == b"PK"]
        zipped = [b"\3" + part["archive/data.pkl"] for part in parts]
        return [*pickles, *graphs, *archives, *zipped]

    def __call__(self, data: bytes) -> None:
        reader = self.readers[data[0] % len(self.readers)] if data else self.pickle
        self.counts[reader.__name__] += 1
        try:
            reader(data[1:])
        except Exception as error:
            if not is_ours(error):
                self._report(error, data)
            else:
                self.counts[f"{reader.__name__}: refused"] += 1
        if sum(self.counts.values()) % 50_000 == 0:
            print(dict(self.counts), flush=True)

    def pickle(self, data: bytes) -> None:
        load_arrays(io.BytesIO(data), "p")

    def graph_file(self, data: bytes) -> None:
        file = self.work / "a.pt"
        file.write_bytes(data)
        load_graphs_from(file)

    def zipped_pickle(self, data: bytes) -> None:
        """The pickle of a ``.pt`` file; the checksums of a zip file would hide it."""
        storages = {f"archive/data/{n}": bytes(8 * size) for n, size in enumerate((3, 8, 2, 1))}
        self.graph_file(seeds.stored({"archive/data.pkl": data, **storages}))

    def archive(self, data: bytes) -> None:
        """One file of an archive is replaced, and its checksums are made right again."""
        names = list(self.files)
        name, data = names[(data[0] if data else 0) % len(names)], data[1:]
        folder = self.work / "archive"
        try:
            (folder / name).write_bytes(self._sealed(data) if name == MANIFEST else data)
            if name != MANIFEST:
                arrays = {k: dict(v) for k, v in self.manifest["arrays"].items()}
                stem = Path(name).stem
                arrays[stem] |= {"bytes": len(data), "sha256": file_digest(folder / name)}
                changed = json.dumps({**self.manifest, "arrays": arrays})
                (folder / MANIFEST).write_bytes(self._sealed(changed.encode()))
            archive = GraphArchive.open(folder, check=True)
            list(archive)
            _ = archive.names and list(archive.names), archive.statistics, archive.structure
        finally:
            for changed_name in (name, MANIFEST):
                (folder / changed_name).write_bytes(self.files[changed_name])

    def _sealed(self, data: bytes) -> bytes:
        """A manifest with the right checksum of itself, if it is JSON at all."""
        with contextlib.suppress(ValueError, RecursionError, TypeError, AttributeError):
            manifest = json.loads(data)
            manifest.pop("sha256", None)
            return json.dumps({**manifest, "sha256": _digest(manifest)}).encode()
        return data

    def _report(self, error: Exception, data: bytes) -> None:
        frames = traceback.extract_tb(error.__traceback__)[-1:]
        kind = f"{type(error).__name__}-{frames[0].filename}-{frames[0].lineno}"
        name = hashlib.sha256(kind.encode()).hexdigest()[:12]
        self.counts["findings"] += 1
        file = self.findings / f"finding-{name}.txt"
        if not file.exists():
            file.write_text("".join(traceback.format_exception(error)))
            file.with_suffix(".bin").write_bytes(data)
            print(f"finding {name}: {kind}", flush=True)


def main() -> None:
    folder = Path(sys.argv[1])
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    guided = Guided(folder, Path(tempfile.mkdtemp(prefix="guided-", dir=os.environ.get("TMPDIR"))))
    for number, data in enumerate(guided.examples()):
        (corpus / f"seed-{number}").write_bytes(data)
    options = [f"-artifact_prefix={folder}/crash-", "-max_len=8192", *sys.argv[2:]]
    atheris.Setup([sys.argv[0], *options, str(corpus)], guided)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
