"""How large an input may be: generous for real data, and checked before memory is taken.

Every reader of files takes :class:`Limits`. An input beyond one of them is refused in one sentence
that names the limit, which ``--limits NAME=VALUE`` raises.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eigenformer.nearest import unknown

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


class LimitError(ValueError):
    """Raised for an input beyond a limit; the message says how to raise the limit."""


@dataclass(frozen=True)
class Limits:
    """The limits of one command. Those with the name of a setting limit that setting.

    Args:
        file_bytes: Bytes of a file, after unpacking.
        unpacked_bytes: Bytes that a compressed file may always unpack to, and a ``.pt`` file may
            always describe.
        unpacked_ratio: How many times its own size a larger file may unpack to.
        text_bytes: Bytes of a table as text, after unpacking.
        columns: Columns of a table.
        cells: Cells of a table; an empty row counts as one.
        cell_length: Characters in one cell.
        smiles_length: Characters in one SMILES.
        atoms: Atoms in one molecule.
        descriptor_atoms: Atoms in a molecule whose descriptors RDKit computes; the time of some of
            them grows with the fourth power.
        pixels: Pixels in one picture.
        nodes: Nodes in one graph.
        parameters: Parameters of a model.
        layers: Layers of a model.
        hidden_dim: Width of nodes and edges.
        heads: Attention heads per layer.
        phi_width: Hidden width of φ₁ and φ₂.
        phi_depth: Hidden layers of φ₁ and φ₂. The number of linear pieces grows with each.
        head_layers: Linear maps in the head.
        node_potentials: Learned node potentials.
        potential_width: Hidden width of the φ of a node potential.
        ffn_width: Hidden width of the feed-forward network.
        steps: Steps of a random walk.
        vectors: Eigenvectors of an encoding.
        expander_degree: Neighbours of a node in an expander.
        virtual_nodes: Virtual nodes per graph.
        max_distance: Distances with a parameter of their own.
        max_degree: Degrees with a parameter of their own.
        path_length: Edges of a shortest path whose features count.
        pair_width: Width of the states of pairs.
        typical_degree: Degree that others are compared with.
        out_channels: Outputs of a model.
        num_descriptors: Descriptors of a graph.
        num_outputs: Targets or classes.
        threads: PyTorch threads per process.
        workers: Threads that compute spectra.
        devices: Processes or GPUs per machine.
        machines: Machines of one run.
        request_bytes: Bytes in the body of a request to ``serve``.
        request_rows: Molecules in a request.
        requests: Requests that wait or are under way at the same time.
    """

    file_bytes: int = 8 << 30
    unpacked_bytes: int = 512 << 20
    unpacked_ratio: int = 20
    text_bytes: int = 2 << 30
    columns: int = 50_000
    cells: int = 20_000_000
    cell_length: int = 1_000_000
    smiles_length: int = 100_000
    atoms: int = 5_000
    descriptor_atoms: int = 500
    pixels: int = 50_000_000
    nodes: int = 1_000_000
    parameters: int = 1_000_000_000
    layers: int = 256
    hidden_dim: int = 16_384
    heads: int = 1_024
    phi_width: int = 1_024
    phi_depth: int = 6
    head_layers: int = 64
    node_potentials: int = 16_384
    potential_width: int = 1_024
    ffn_width: int = 65_536
    steps: int = 4_096
    vectors: int = 4_096
    expander_degree: int = 4_096
    virtual_nodes: int = 1_024
    max_distance: int = 4_096
    max_degree: int = 65_536
    path_length: int = 256
    pair_width: int = 1_024
    typical_degree: int = 1_000_000
    out_channels: int = 10_000
    num_descriptors: int = 50_000
    num_outputs: int = 10_000
    threads: int = 1_024
    workers: int = 1_024
    devices: int = 256
    machines: int = 10_000
    request_bytes: int = 2 << 20
    request_rows: int = 10_000
    requests: int = 64

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if type(value) is not int or value < 1:
                raise LimitError(f"limits: {name} must be a positive integer, got {value!r}")

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Limits:
        """Reads limits as they are given on the command line, such as ``atoms=20k``."""
        known = {field.name for field in dataclasses.fields(cls)}
        values: dict[str, int] = {}
        for text in texts:
            name, _, value = text.partition("=")
            if name not in known:
                raise LimitError(unknown(f"limits: '{name}'", name, known))
            number = value.lower().rstrip("kmg").replace("_", "")
            unit = value.lower()[len(value.rstrip("kmgKMG")) :]
            if not number.isdecimal() or len(number) > 18 or unit not in _UNITS:
                raise LimitError(
                    f"limits: expected {name}=NUMBER, such as {name}=20k, got '{text}'"
                )
            values[name] = int(number) * _UNITS[unit]
        return cls(**values)

    def check(self, name: str, value: int, what: str = "") -> None:
        """Raises an error if ``value`` exceeds the limit ``name``; ``what`` has the value."""
        limit = getattr(self, name)
        if value > limit:
            raise LimitError(f"{what or name}: {value:,} exceeds {self.advice(name)}")

    def advice(self, name: str) -> str:
        """Returns the end of an error message: the limit, and how to raise it."""
        limit = getattr(self, name)
        return f"the limit of {limit:,} (raise it with  --limits {name}=NUMBER)"

    def check_settings(self, values: Any, path: str = "") -> None:
        """Raises an error if a setting, at any depth of plain settings, exceeds its limit."""
        if dataclasses.is_dataclass(values):
            values = vars(values)
        if not isinstance(values, Mapping):
            return
        for key, value in values.items():
            place = f"{path}.{key}" if path else str(key)
            if type(value) is int and key in _SETTINGS:
                self.check(key, value, place)
            else:
                self.check_settings(value, place)

    def unpacked(self, size: int) -> int:
        """Returns how many bytes a file of ``size`` bytes may unpack to."""
        return min(self.file_bytes, max(self.unpacked_bytes, self.unpacked_ratio * size))

    def check_unpacked(self, count: int, size: int) -> None:
        """Raises an error if a file of ``size`` bytes unpacks to ``count`` bytes, or more."""
        if count > self.unpacked(size):
            name = "file_bytes" if count > self.file_bytes else "unpacked_bytes"
            limit = f"{self.unpacked(size):,} (raise it with  --limits {name}=NUMBER)"
            raise LimitError(f"unpacks from {size:,} bytes to more than the limit of {limit}")


DEFAULT_LIMITS = Limits()
"""The limits unless others are given."""

_SETTINGS = frozenset(
    {"layers", "hidden_dim", "heads", "phi_width", "phi_depth", "head_layers", "node_potentials"}
    | {"potential_width", "ffn_width", "out_channels", "num_outputs"}
    | {"steps", "vectors", "expander_degree", "virtual_nodes", "max_distance", "max_degree"}
    | {"path_length", "pair_width", "typical_degree"}
    | {"threads", "workers", "devices", "machines"}
)
