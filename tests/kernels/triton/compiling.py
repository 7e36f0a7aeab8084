"""Compiles every kernel ahead of time, without a GPU, and reads what it needs of one.

python -m tests.kernels.triton.compiling    prints the table of docs/performance.md
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from eigenformer.kernels.triton import backward, edges, forward
from eigenformer.kernels.triton.launch import REGISTERS, THREADS
from eigenformer.kernels.triton.layout import BLOCK, MOST_CHANNELS
from eigenformer.kernels.triton.tiles import FREQUENCIES

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
SHARED_MEMORY = {"sm_80": 163 * 1024, "sm_90": 227 * 1024, "gfx942": 64 * 1024}
"""Shared memory that a program may have, in bytes."""

CHANNELS = {16: "up to 16", MOST_CHANNELS: f"17 to {MOST_CHANNELS}"}
"""What the channels of a head are filled up to."""

INTEGERS = [
    "blocks",
    "first_node",
    "first_frequency",
    "node_graph",
    "first_edge",
    "edge_source",
    "edge_target",
    "edge_kind",
]
LONG_INTEGERS = [
    "first_entry",
    "first_part",
    "first_part_of_graph",
    "by_kind",
    "first_of_kind",
    "seed",
]
NUMBERS = [
    "heads",
    "channels",
    "segments",
    "piece_steps",
    "edge_steps",
    "threshold",
    "nodes",
    "factors",
    "edges",
    "splits",
]

Specialisation = tuple[str, Any, dict[str, Any]]
"""The name of a kernel, the kernel, and its constants."""


@dataclass(frozen=True)
class Needs:
    """What a compiled kernel needs.

    Args:
        registers: Registers of a thread; on AMD, vector registers.
        spilled: Bytes of memory for registers that did not fit.
        vectors: Vector registers that did not fit; AMD only.
        scalars: Scalar registers that are kept in lanes of vector registers; AMD only.
        shared: Bytes of shared memory.
        assembly: The compiled code as text.
    """

    registers: int
    spilled: int
    vectors: int
    scalars: int
    shared: int
    assembly: str


def specialisations() -> Iterator[Specialisation]:
    """Yields every kernel with everything that it can be compiled for."""
    block: dict[str, Any] = {"BLOCK": BLOCK}
    tiles = {"attend": forward.attend, "rows": backward.rows, "columns": backward.columns}
    switches = (False, True)
    for wide in CHANNELS:
        size = {**block, "CHANNELS": wide}
        for psi, dropout, logits, values in product((0, 1, 2), switches, switches, switches):
            given = {"PSI": psi, "DROPOUT": dropout, "EDGES": logits or values, **size}
            given |= {"EDGE_LOGITS": logits, "EDGE_VALUES": values}
            yield from ((name, kernel, given) for name, kernel in tiles.items())
        for factors in switches:
            for dropout in switches:
                yield "messages", edges.messages, {"FACTORS": factors, "DROPOUT": dropout, **size}
            yield "products", edges.products, {"FACTORS": factors, **size}
            for logits, values in ((True, True), (True, False), (False, True)):
                given = {"FACTORS": factors, "EDGE_LOGITS": logits, "EDGE_VALUES": values, **size}
                yield "sums", edges.sums, given
    yield "sum_importance", backward.sum_importance, block
    yield "norms", forward.norms, {"FREQUENCIES": FREQUENCIES, **block}


def compile_for(
    target: str, kernel: Any, constants: dict[str, Any], values: str = "*fp32"
) -> Needs:
    """Compiles a kernel to PTX and a cubin, or to AMD's code object."""
    numbers = [name for name in kernel.arg_names if name.islower()]
    assert list(kernel.do_not_specialize) == numbers, "it would be compiled for other numbers, too"
    types = dict.fromkeys(INTEGERS, "*i32") | dict.fromkeys(LONG_INTEGERS, "*i64")
    types |= dict.fromkeys(NUMBERS, "i32") | {"scale": "fp32", "keep_scale": "fp32"}
    types |= dict.fromkeys(("values", "edge_values"), values)
    types |= dict.fromkeys(constants, "constexpr")
    signature = {name: types.get(name, "*fp32") for name in kernel.arg_names}
    gpu = TARGETS[target]
    options = {"num_warps": THREADS // gpu.warp_size, "num_stages": 1}
    if gpu.backend == "cuda":
        options["maxnreg"] = REGISTERS
    found = triton.compile(ASTSource(kernel, signature, constants), target=gpu, options=options)
    if gpu.backend == "cuda":
        assert found.asm["cubin"]
        return Needs(*_of_cubin(found.asm["cubin"]), 0, 0, found.metadata.shared, found.asm["ptx"])
    assert found.asm["hsaco"]
    return needs_of_amd(found.asm["amdgcn"], found.metadata.shared)


def needs_of_amd(text: str, shared: int) -> Needs:
    """Returns what AMD's compiler writes beside its code."""
    names = ("vgpr_count", "private_segment_fixed_size", "vgpr_spill_count", "sgpr_spill_count")
    return Needs(*(_number(rf"\.{name}:\s+(\d+)", text) for name in names), shared, text)


def _of_cubin(cubin: bytes) -> tuple[int, int]:
    """Returns registers, and bytes of the stack, which only spilled registers use."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(tool), "-res-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = ("REG", "STACK", "LOCAL")
    registers, stack, local = (_number(rf"{name}:(\d+)", text) for name in names)
    return registers, stack + local


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found is not None, pattern
    return int(found[1])


def table() -> Iterator[str]:
    """Yields a table of the most that any specialisation of each kernel needs."""
    yield "| kernel | channels | " + " | ".join(TARGETS) + ", scalars in lanes |"
    yield "| --- |" + " --- |" * (1 + len(TARGETS))
    found: dict[tuple[str, Any], dict[str, list[Needs]]] = {}
    for name, kernel, constants in specialisations():
        row = found.setdefault((name, constants.get("CHANNELS", 0)), {})
        for target in TARGETS:
            row.setdefault(target, []).append(compile_for(target, kernel, constants))
    for (name, wide), row in found.items():
        cells = []
        for target, needs in row.items():
            figures = ["registers", "spilled", "shared"]
            figures += ["scalars"] if TARGETS[target].backend == "hip" else []
            most = (max(getattr(x, of) for x in needs) for of in figures)
            cells.append(", ".join(map(str, most)))
        yield f"| `{name}` | {CHANNELS.get(wide, 'any')} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    for line in table():
        print(line, flush=True)
