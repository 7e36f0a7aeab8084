"""Every kernel is compiled for GPUs that are not here, and fits them."""

from __future__ import annotations

import importlib.util
import re

import pytest

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed", allow_module_level=True)

from tests.kernels.triton.compiling import (
    SHARED_MEMORY,
    TARGETS,
    Specialisation,
    compile_for,
    specialisations,
)


def check(target: str, specialisation: Specialisation, spilled: int = 0) -> None:
    name, kernel, constants = specialisation
    needs = compile_for(target, kernel, constants)
    assert needs.spilled <= spilled, f"{name} spills {needs.spilled} bytes: {constants}"
    assert needs.shared <= SHARED_MEMORY[target]
    # Sums have a fixed order: nothing is added to memory by several threads at once.
    assert not re.search(r"\b(atom|red)\.(global|shared)|atomic_(add|fadd)", needs.assembly)


def test_a_kernel_compiles_for_a_gpu() -> None:
    found = [x for x in specialisations() if x[0] == "sums"]
    check("sm_80", found[0])


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_no_kernel_spills(target: str) -> None:
    for specialisation in specialisations():
        check(target, specialisation)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_wider_heads_spill_a_few_bytes_at_most(target: str) -> None:
    for specialisation in specialisations((32,)):
        if all(value is not False for value in specialisation[2].values()):  # all options
            check(target, specialisation, spilled=16)
