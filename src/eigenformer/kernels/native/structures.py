"""The C structures of structures.h, and a comparison with those the library was built with."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple


class Structure(ctypes.Structure):
    """A C structure filled by keyword; every field must be given."""

    def __init__(self, **fields: Any) -> None:
        # ctypes would leave a missing field at 0 and store a misspelt one as an attribute.
        names = [name for name, *_ in self._fields_]
        if fields.keys() != set(names):
            wrong = ", ".join(sorted(fields.keys() ^ set(names)))
            raise TypeError(f"{type(self).__name__}: missing or unknown fields: {wrong}")
        super().__init__(**fields)


def _fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


class AttentionCall(Structure):
    """``AttentionCall`` of structures.h: one layer's attention, inputs and outputs."""

    _fields_ = (
        *_fields(ctypes.c_int64, "graphs nodes frequencies heads channels segments"),
        *_fields(ctypes.c_int64, "edges edge_kinds factors entries"),
        *_fields(ctypes.c_void_p, "first_node first_frequency first_edge edge_source edge_kind"),
        *_fields(ctypes.c_void_p, "edge_coefficients eigenvectors importance"),
        *_fields(ctypes.c_void_p, "knots slopes intercepts"),
        *_fields(ctypes.c_void_p, "values queries keys edge_logits edge_values"),
        ("seed", ctypes.c_uint64),
        ("dropout", ctypes.c_float),
        *_fields(ctypes.c_int32, "psi shared_kinds threads"),
        *_fields(ctypes.c_void_p, "out maximum inverse"),
    )


class Gradients(Structure):
    """``Gradients`` of structures.h: the gradients of one layer's attention."""

    _fields_ = (
        *_fields(ctypes.c_void_p, "d_out importance slopes intercepts"),
        *_fields(ctypes.c_void_p, "values queries keys edge_logits edge_values"),
    )


class FilterCall(Structure):
    """``FilterCall`` of structures.h: filters of the spectrum, applied to nodes."""

    _fields_ = (
        *_fields(ctypes.c_int64, "graphs nodes frequencies filters channels entries"),
        *_fields(ctypes.c_void_p, "first_node first_frequency eigenvectors importance"),
        *_fields(ctypes.c_void_p, "values modes out d_importance"),
        ("threads", ctypes.c_int64),
    )


class GateCall(Structure):
    """``GateCall`` of structures.h: gated messages along edges."""

    _fields_ = (
        *_fields(ctypes.c_int64, "graphs nodes channels edges rows factors"),
        *_fields(ctypes.c_void_p, "first_node first_edge edge_source edge_row coefficients"),
        *_fields(ctypes.c_void_p, "target source values edge out sums"),
        *_fields(ctypes.c_void_p, "d_out d_target d_source d_values d_edge"),
        *_fields(ctypes.c_int32, "shared_rows threads"),
    )


class Evaluation(Structure):
    """``Evaluation`` of structures.h: scalar functions, as linear pieces, at given numbers."""

    _fields_ = (
        *_fields(ctypes.c_int64, "functions segments count heads"),
        *_fields(ctypes.c_void_p, "x knots slopes intercepts y d_slopes d_intercepts"),
    )


class Networks(Structure):
    """``Networks`` of structures.h: scalar ReLU networks of one shape, and their pieces."""

    _fields_ = (
        *_fields(ctypes.c_int64, "functions heads width depth capacity"),
        *_fields(ctypes.POINTER(ctypes.c_void_p), "weights biases"),
        *_fields(ctypes.c_void_p, "low high knots slopes intercepts"),
        *_fields(ctypes.POINTER(ctypes.c_void_p), "d_weights d_biases"),
        ("threads", ctypes.c_int64),
    )


STRUCTURES: tuple[type[Structure], ...] = (
    AttentionCall,
    Gradients,
    FilterCall,
    GateCall,
    Evaluation,
    Networks,
)

_KINDS = {
    ctypes.c_int64: "int",
    ctypes.c_int32: "int",
    ctypes.c_uint64: "uint",
    ctypes.c_float: "float",
}


class Field(NamedTuple):
    """Layout of a field: offset and size in bytes, and the kind of number."""

    offset: int
    size: int
    kind: str

    def __str__(self) -> str:
        return f"{8 * self.size}-bit {self.kind} at byte {self.offset}"


Layout = dict[str, tuple[int, dict[str, Field]]]
"""Size and fields of each structure, by its name."""


def layout_of(structures: Sequence[type[ctypes.Structure]]) -> Layout:
    """Returns the layout of these structures in Python."""
    found: Layout = {}
    for structure in structures:
        fields = {}
        for name, kind, *_ in structure._fields_:
            place = getattr(structure, name)
            fields[name] = Field(place.offset, place.size, _KINDS.get(kind, "pointer"))
        found[structure.__name__] = ctypes.sizeof(structure), fields
    return found


def parse_layout(text: str) -> Layout:
    """Parses the layout that the library describes, see layout.h."""
    found: Layout = {}
    fields: dict[str, Field] = {}
    for line in text.splitlines():
        name, *numbers = line.split()
        if line.startswith(" "):
            offset, size, kind = numbers
            fields[name] = Field(int(offset), int(size), kind)
        else:
            fields = {}
            found[name] = int(numbers[0]), fields
    return found


def first_difference(ours: Layout, theirs: Layout) -> str | None:
    """Describes the first difference between two layouts; None if they are equal."""
    for name in dict.fromkeys([*ours, *theirs]):
        if name not in theirs or name not in ours:
            return f"{name} is known to {'the package' if name in ours else 'the library'} only"
        (our_size, our_fields), (their_size, their_fields) = ours[name], theirs[name]
        for field in dict.fromkeys([*our_fields, *their_fields]):
            here, there = our_fields.get(field), their_fields.get(field)
            if here != there:
                return f"{name}.{field} is {_place(there)} in the library, {_place(here)} here"
        if our_size != their_size:
            return f"{name} has {their_size} bytes in the library, {our_size} here"
    return None


def _place(field: Field | None) -> str:
    return "missing" if field is None else str(field)
