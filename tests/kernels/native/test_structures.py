"""The C structures: filled by keyword, and compared field by field with those of the library."""

from __future__ import annotations

import ctypes

import pytest

from eigenformer.cli import main
from eigenformer.kernels import TorchAttention, make_kernel
from eigenformer.kernels.native import binding, library
from eigenformer.kernels.native.structures import (
    STRUCTURES,
    Gradients,
    Structure,
    first_difference,
    layout_of,
    parse_layout,
)
from tests.kernels.native.cases import Case, Example

FIELDS = [(s, number) for s in STRUCTURES for number in range(len(s._fields_))]


def described() -> str:
    return library()._library.eigenformer_structures().decode()


def changed(structure: type[Structure], fields: list[tuple[str, type]]) -> list[type[Structure]]:
    """All structures, one of them with other fields."""
    other = type(structure.__name__, (Structure,), {"_fields_": fields})
    return [other if s is structure else s for s in STRUCTURES]


def test_library_and_package_agree() -> None:
    assert first_difference(layout_of(STRUCTURES), parse_layout(described())) is None


@pytest.mark.parametrize(("structure", "number"), FIELDS)
def test_a_renamed_field_is_found(structure: type[Structure], number: int) -> None:
    fields = list(structure._fields_)
    name, kind = fields[number]
    fields[number] = (f"{name}_", kind)
    found = first_difference(layout_of(changed(structure, fields)), parse_layout(described()))
    assert found is not None
    assert found.startswith(f"{structure.__name__}.{name}_ is missing in the library")


@pytest.mark.parametrize(("structure", "number"), FIELDS)
def test_a_shifted_field_is_found_though_the_size_is_the_same(
    structure: type[Structure], number: int
) -> None:
    fields = list(structure._fields_)
    other = (number + 1) % len(fields)
    fields[number], fields[other] = fields[other], fields[number]
    found = first_difference(layout_of(changed(structure, fields)), parse_layout(described()))
    assert found is not None
    assert found.startswith(f"{structure.__name__}.")


@pytest.mark.parametrize(("structure", "number"), FIELDS)
def test_a_field_that_is_missing_or_too_much_is_found(
    structure: type[Structure], number: int
) -> None:
    theirs = parse_layout(described())
    for fields in (
        [field for place, field in enumerate(structure._fields_) if place != number],
        [*structure._fields_[:number], ("more", ctypes.c_int64), *structure._fields_[number:]],
    ):
        assert first_difference(layout_of(changed(structure, fields)), theirs) is not None


def test_another_kind_of_number_is_found() -> None:
    fields = [
        (name, ctypes.c_int32 if name == "dropout" else kind)
        for name, kind in STRUCTURES[0]._fields_
    ]
    found = first_difference(layout_of(changed(STRUCTURES[0], fields)), parse_layout(described()))
    place = "at byte 216"
    assert found == (
        f"AttentionCall.dropout is 32-bit float {place} in the library, 32-bit int {place} here"
    )


def test_a_structure_that_one_side_lacks_is_found() -> None:
    assert first_difference(layout_of(STRUCTURES[1:]), parse_layout(described())) == (
        "AttentionCall is known to the library only"
    )


def test_every_field_is_given_once_by_name() -> None:
    names = [name for name, _ in Gradients._fields_]
    Gradients(**dict.fromkeys(names))
    with pytest.raises(TypeError, match="Gradients: missing or unknown fields: keys"):
        Gradients(**{name: None for name in names if name != "keys"})
    with pytest.raises(TypeError, match="Gradients: missing or unknown fields: kees"):
        Gradients(**dict.fromkeys([*names, "kees"]))


def test_a_library_with_other_structures_is_not_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = list(Gradients._fields_)
    fields[1], fields[2] = fields[2], fields[1]
    example = Example.of(Case())
    monkeypatch.setattr(binding, "STRUCTURES", changed(Gradients, fields))
    loaded = binding.load.__wrapped__()
    assert loaded[0] is None
    assert "built from another version of its source: Gradients.slopes is" in loaded[1]
    monkeypatch.setattr(binding, "load", lambda: loaded)
    assert isinstance(make_kernel(example.graphs), TorchAttention)
    with pytest.raises(ValueError, match=r"backend: 'native': .*Gradients\.slopes"):
        make_kernel(example.graphs, "native")
    assert main(["doctor"]) == 0
    assert f"attention        torch: {loaded[1]}" in capsys.readouterr().out
