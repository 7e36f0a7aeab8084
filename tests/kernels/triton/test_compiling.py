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
    needs_of_amd,
    specialisations,
)


def check(target: str, specialisation: Specialisation, values: str = "*fp32") -> None:
    name, kernel, constants = specialisation
    needs = compile_for(target, kernel, constants, values)
    assert needs.spilled == 0, f"{name} spills {needs.spilled} bytes: {constants}"
    assert needs.vectors == 0, f"{name} spills {needs.vectors} vector registers: {constants}"
    assert needs.shared <= SHARED_MEMORY[target]
    # Sums have a fixed order: nothing is added to memory by several threads at once.
    assert not re.search(r"\b(atom|red)\.(global|shared)|atomic_(add|fadd)", needs.assembly)


def test_a_kernel_compiles_for_a_gpu() -> None:
    check("sm_80", next(x for x in specialisations() if x[0] == "sums"))


def test_amd_spills_of_both_kinds_are_read() -> None:
    text = (
        ".private_segment_fixed_size: 8\n.sgpr_spill_count: 91\n.vgpr_count: 353\n"
        ".vgpr_spill_count: 2\n"
    )
    needs = needs_of_amd(text, shared=4096)
    assert (needs.registers, needs.spilled, needs.vectors, needs.scalars) == (353, 8, 2, 91)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_no_kernel_spills(target: str) -> None:
    for specialisation in specialisations():
        check(target, specialisation)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_no_kernel_spills_with_values_of_half_the_width(target: str) -> None:
    for specialisation in specialisations():
        if all(value is not False for value in specialisation[2].values()):  # all options
            check(target, specialisation, values="*bf16")
