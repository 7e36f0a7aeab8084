"""A pickle as data: follows its instructions, and records the calls instead of making them.

The machine knows only the instructions that are needed for arrays, tensors and plain containers.
It imports nothing and calls nothing for a file: a name stays a :class:`Name`, and a call stays a
:class:`Call`. :mod:`eigenformer.data.plain_values` decides what they mean.

Memory is allocated for what the file contains, never for what it claims to contain.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MAX_INSTRUCTIONS = 40_000_000
"""The maximum number of instructions per pickle.

A list of 220,000 molecules like ZINC's has about 19 million.
"""

MAX_DIGITS = 400
"""The maximum number of digits of a number that is written as text."""

PYG_NAMES = frozenset(
    {
        ("torch_geometric.data.data", "Data"),
        ("torch_geometric.data.data", "DataEdgeAttr"),
        ("torch_geometric.data.data", "DataTensorAttr"),
        ("torch_geometric.data.storage", "GlobalStorage"),
    }
)
"""The names in the pickle of a PyG ``Data``."""

STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}
"""PyTorch's names of storages, with the type of their elements."""

ARRAY_NAMES = frozenset(
    {
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
        ("collections", "OrderedDict"),
        ("torch._utils", "_rebuild_tensor"),
        ("torch._utils", "_rebuild_tensor_v2"),
        ("torch.storage", "_load_from_bytes"),
        *(
            (f"numpy.{core}.{module}", name)
            for core in ("core", "_core")
            for module, name in (
                ("multiarray", "_reconstruct"),
                ("multiarray", "scalar"),
                ("numeric", "_frombuffer"),
            )
        ),
        *(("torch", name) for name in STORAGES),
    }
)
"""The names in the pickles of arrays and tensors."""


class Refused(Exception):
    """Raised if a file asks for something that is not allowed, or contradicts itself."""


@dataclass(frozen=True)
class Name:
    """A name that the file asks for. It is never looked up."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False)
class Call:
    """A call that the file asks for. It is never made."""

    name: Name
    arguments: tuple[Any, ...]
    state: Any = None
    entries: dict[Any, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Reference:
    """A reference to an object outside the pickle: a storage."""

    key: Any


class PickleMachine:
    """Follows the instructions of one pickle.

    Args:
        data: The bytes of a file.
        start: The position at which the pickle begins.
        names: The allowed names.
    """

    def __init__(
        self, data: bytes | memoryview, start: int = 0, names: frozenset[Any] = ARRAY_NAMES
    ) -> None:
        self.data = memoryview(data)
        self.position = start
        self.names = names
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.references: list[Reference] = []

    def run(self) -> Any:
        """Returns what the pickle describes. Afterwards :attr:`position` is the pickle's end."""
        data, size, steps = self.data, len(self.data), _STEPS
        for _ in range(MAX_INSTRUCTIONS):
            if self.position >= size:
                raise Refused("it ends too early")
            code = data[self.position]
            self.position += 1
            if code == _STOP:
                if len(self.stack) != 1 or self.marks:
                    raise Refused("it does not end with one value")
                return self.stack[0]
            step = steps[code]
            if step is None:
                raise Refused(f"uses the instruction {bytes([code])!r}, which arrays do not need")
            step(self)
        raise Refused(f"has more than {MAX_INSTRUCTIONS:,} instructions")

    # Building blocks of the instructions.

    def take(self, size: int) -> memoryview:
        """Returns the next ``size`` bytes. Raises an error if the file has fewer."""
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise Refused("claims more bytes than it has")
        part = self.data[self.position : end]
        self.position = end
        return part

    def number(self, form: str) -> Any:
        """Reads a number in a format of :mod:`struct`."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def line(self, limit: int | None = None) -> bytes:
        """Returns the bytes up to the end of the line."""
        # The search goes in blocks, so that its cost is proportional to the length of the line.
        end, block = -1, self.position
        while end < 0 and block < len(self.data):
            part = bytes(self.data[block : block + 256])
            found = part.find(b"\n")
            end = block + found if found >= 0 else -1
            block += len(part)
            if limit is not None and block - self.position > limit + 256:
                break
        if end < 0 or (limit is not None and end - self.position > limit):
            raise Refused("has a line without an end")
        line = bytes(self.data[self.position : end])
        self.position = end + 1
        return line

    def pop(self) -> Any:
        """Removes and returns the value on top of the stack."""
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise Refused("takes a value that is not there")
        return self.stack.pop()

    def top(self) -> Any:
        """Returns the value on top of the stack without removing it."""
        value = self.pop()
        self.stack.append(value)
        return value

    def pop_to_mark(self) -> list[Any]:
        """Removes and returns all values since the last mark."""
        if not self.marks:
            raise Refused("takes values that are not there")
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values

    # Texts and numbers.

    def text(self, size: int, encoding: str = "utf-8") -> None:
        try:
            self.stack.append(str(self.take(size), encoding, "surrogatepass"))
        except UnicodeDecodeError:
            raise Refused("has a text that is not UTF-8") from None

    def line_text(self) -> None:
        try:
            self.stack.append(str(self.line(), "raw-unicode-escape"))
        except UnicodeDecodeError:
            raise Refused("has a text that is not Unicode") from None

    def quoted_text(self) -> None:
        line = self.line().strip()
        if len(line) < 2 or line[:1] not in (b"'", b'"') or line[-1:] != line[:1]:
            raise Refused("has a text without quotes")
        try:
            self.stack.append(codecs.escape_decode(line[1:-1])[0].decode("latin1"))
        except ValueError:
            raise Refused("has a text that cannot be read") from None

    def bytes_of(self, size: int) -> None:
        self.stack.append(bytes(self.take(size)))

    def line_number(self, kind: type) -> None:
        line = self.line(MAX_DIGITS)
        truth = {b"00": False, b"01": True} if kind is int else {}
        if line in truth:
            self.stack.append(truth[line])
            return
        try:
            self.stack.append(kind(line.rstrip(b"L") if kind is int else line))
        except ValueError:
            raise Refused("contains an invalid number") from None

    def long_number(self, size: int) -> None:
        if not 0 <= size <= MAX_DIGITS:
            raise Refused("has a number of too many digits")
        self.stack.append(int.from_bytes(self.take(size), "little", signed=True))

    # Containers.

    def make_tuple(self, size: int) -> None:
        self.stack.append(tuple([self.pop() for _ in range(size)][::-1]))

    def append(self, values: list[Any]) -> None:
        target = self.top()
        if type(target) is not list:
            raise Refused("appends to what is no list")
        target.extend(values)

    def set_items(self, values: list[Any]) -> None:
        target = self.top()
        if type(target) is Call and target.name == _ORDERED:
            target = target.entries
        if type(target) is not dict:
            raise Refused("sets an entry of what is no dictionary")
        target.update(_pairs(values))

    # The memo.

    def remember(self, index: int) -> None:
        # Picklers count from 0, so none of them writes an index beyond the bytes read so far.
        if not 0 <= index <= self.position:
            raise Refused("remembers a value under a number out of order")
        self.memo[index] = self.top()

    def recall(self, index: int) -> None:
        if index not in self.memo:
            raise Refused("recalls a value that is not there")
        self.stack.append(self.memo[index])

    def line_index(self) -> int:
        try:
            return int(self.line(20))
        except ValueError:
            raise Refused("contains an invalid number") from None

    # Names and calls.

    def name(self, module: Any, name: Any) -> None:
        if not (type(module) is str and type(name) is str):
            raise Refused("asks for a name that is no text")
        if (module, name) not in self.names:
            asked = ascii(f"{module[:60]}.{name[:60]}")
            raise Refused(f"asks for {asked}; only arrays and tensors are admitted")
        self.stack.append(Name(module, name))

    def line_name(self) -> None:
        module, name = self.line(1000), self.line(1000)
        self.name(module.decode("utf-8", "replace"), name.decode("utf-8", "replace"))

    def stack_name(self) -> None:
        name, module = self.pop(), self.pop()
        self.name(module, name)

    def call(self) -> None:
        arguments, name = self.pop(), self.pop()
        if type(name) is not Name or type(arguments) is not tuple:
            raise Refused("calls what cannot be called")
        self.stack.append(Call(name, arguments))

    def build(self) -> None:
        state, target = self.pop(), self.top()
        if type(target) is not Call or target.state is not None:
            raise Refused("changes what must not be changed")
        target.state = state

    def reference(self) -> None:
        self.references.append(Reference(self.pop()))
        self.stack.append(self.references[-1])


def _pairs(values: list[Any]) -> dict[Any, Any]:
    if len(values) % 2:
        raise Refused("has a key without a value")
    keys = values[::2]
    for key in keys:
        # Allow only keys that are cheap to compare: no nested tuples, no numbers that collide.
        if type(key) is not str and not (type(key) is int and abs(key) < 2**31):
            raise Refused("has a key that is neither a text nor a small number")
    return dict(zip(keys, values[1::2], strict=True))


_ORDERED = Name("collections", "OrderedDict")
_STOP = ord(".")
_Step = Callable[[PickleMachine], Any]


def _steps() -> list[_Step | None]:
    known: dict[bytes, _Step] = {
        b"\x80": lambda m: m.take(1),  # PROTO
        b"\x95": lambda m: m.take(8),  # FRAME
        b"(": lambda m: m.marks.append(len(m.stack)),
        b"0": lambda m: m.pop(),
        b"1": lambda m: m.pop_to_mark(),
        b"2": lambda m: m.stack.append(m.top()),
        b"N": lambda m: m.stack.append(None),
        b"\x88": lambda m: m.stack.append(True),
        b"\x89": lambda m: m.stack.append(False),
        b"I": lambda m: m.line_number(int),
        b"L": lambda m: m.line_number(int),
        b"F": lambda m: m.line_number(float),
        b"K": lambda m: m.stack.append(m.number("<B")),
        b"M": lambda m: m.stack.append(m.number("<H")),
        b"J": lambda m: m.stack.append(m.number("<i")),
        b"G": lambda m: m.stack.append(m.number(">d")),
        b"\x8a": lambda m: m.long_number(m.number("<B")),
        b"\x8b": lambda m: m.long_number(m.number("<i")),
        b"X": lambda m: m.text(m.number("<I")),
        b"\x8c": lambda m: m.text(m.number("<B")),
        b"\x8d": lambda m: m.text(m.number("<Q")),
        b"T": lambda m: m.text(m.number("<i"), "latin1"),
        b"U": lambda m: m.text(m.number("<B"), "latin1"),
        b"V": lambda m: m.line_text(),
        b"S": lambda m: m.quoted_text(),
        b"B": lambda m: m.bytes_of(m.number("<I")),
        b"C": lambda m: m.bytes_of(m.number("<B")),
        b"\x8e": lambda m: m.bytes_of(m.number("<Q")),
        b"\x96": lambda m: m.bytes_of(m.number("<Q")),
        b")": lambda m: m.stack.append(()),
        b"]": lambda m: m.stack.append([]),
        b"}": lambda m: m.stack.append({}),
        b"\x85": lambda m: m.make_tuple(1),
        b"\x86": lambda m: m.make_tuple(2),
        b"\x87": lambda m: m.make_tuple(3),
        b"t": lambda m: m.stack.append(tuple(m.pop_to_mark())),
        b"l": lambda m: m.stack.append(m.pop_to_mark()),
        b"d": lambda m: m.stack.append(_pairs(m.pop_to_mark())),
        b"a": lambda m: m.append([m.pop()]),
        b"e": lambda m: m.append(m.pop_to_mark()),
        b"s": lambda m: m.set_items([m.pop(), m.pop()][::-1]),
        b"u": lambda m: m.set_items(m.pop_to_mark()),
        b"q": lambda m: m.remember(m.number("<B")),
        b"r": lambda m: m.remember(m.number("<I")),
        b"p": lambda m: m.remember(m.line_index()),
        b"\x94": lambda m: m.remember(len(m.memo)),
        b"h": lambda m: m.recall(m.number("<B")),
        b"j": lambda m: m.recall(m.number("<I")),
        b"g": lambda m: m.recall(m.line_index()),
        b"c": lambda m: m.line_name(),
        b"\x93": lambda m: m.stack_name(),
        b"R": lambda m: m.call(),
        b"\x81": lambda m: m.call(),  # NEWOBJ
        b"b": lambda m: m.build(),
        b"Q": lambda m: m.reference(),
    }
    return [known.get(bytes([code])) for code in range(256)]


_STEPS = _steps()
