"""The page of all settings, generated from the dataclasses so that the two always agree.

``python -m eigenformer.config.reference > docs/settings.md`` writes the page.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from eigenformer.config.encodings import EncodingSpec
from eigenformer.config.model import EncoderSpec
from eigenformer.config.run import RunConfig
from eigenformer.config.settings import Settings, alternatives, setting_types

_SECTIONS = ("data", "model", "training")

_HEAD = """# Every setting

Generated from the code by `python -m eigenformer.config.reference`; a test checks that they agree.

Give a setting on the command line by its dotted name (`--model.layers 4`), in a file for
`--config` as YAML, or in Python as a plain dictionary for `plan` or as an argument of the
dataclass. A run takes all other settings from its preset and its data. The defaults below are
those of the dataclasses; — means that there is none.
"""


def settings_page() -> str:
    """Returns the page as Markdown."""
    parts = [_HEAD, f"## The run\n\n{_summary(RunConfig)}\n\n{_table(RunConfig, '')}"]
    for section in _SECTIONS:
        members = alternatives(setting_types(RunConfig)[section])
        if len(members) == 1:
            text = f"{_summary(members[0])}\n\n{_table(members[0], f'{section}.')}"
            parts.append(f"## `{section}`\n\n{text}")
        else:
            parts.append(f"## `{section}`\n\n`{section}.kind` selects one of these.")
            parts += [_kind(member, f"{section}.") for member in members]
    parts.append(
        "## Encoders\n\nFor `model.node_encoder` and `model.edge_encoder`; `kind` selects one."
    )
    parts += [_kind(cls, "") for cls in alternatives(EncoderSpec)]
    parts.append(
        "## Encodings\n\nFor `model.encoding` of networks that have it; `kind` selects one."
    )
    parts += [_kind(cls, "") for cls in alternatives(EncodingSpec)]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _kind(cls: type[Settings], prefix: str) -> str:
    """Describes one member of a union."""
    kinds = ", ".join(get_args(setting_types(cls)["kind"]))
    return f"### `kind: {kinds}`\n\n{_summary(cls)}\n\n{_table(cls, prefix)}".rstrip()


def _table(cls: type[Settings], prefix: str) -> str:
    texts = _arguments(cls)
    hints = get_type_hints(cls)
    rows = [
        f"| `{prefix}{field.name}` | {_type(hints[field.name])} | {_default(field)} | "
        f"{texts[field.name]} |"
        # Required settings come first.
        for field in sorted(dataclasses.fields(cls), key=lambda f: _default(f) != "—")
        if field.name != "kind"
    ]
    if not rows:
        return ""
    return "\n".join(
        ["| setting | type | default | what it does |", "| --- | --- | --- | --- |", *rows]
    )


def _summary(cls: type[Settings]) -> str:
    text = (inspect.getdoc(cls) or "").split("\n\n")[0].replace("``", "`")
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _arguments(cls: type[Settings]) -> dict[str, str]:
    """Returns the descriptions in the ``Args:`` sections of a class and its bases by name."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        _, _, text = inspect.cleandoc(base.__doc__ or "").partition("Args:\n")
        found = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", text, re.M)
        texts |= {name: re.sub(r"\s+", " ", words).replace("``", "`") for name, words in found}
    return texts


def _type(annotation: Any) -> str:
    origin, members = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{member}`" for member in members)
    if origin in (Union, types.UnionType):
        if any(isinstance(m, type) and issubclass(m, Settings) for m in members):
            named = {"an encoder": EncoderSpec, "an encoding": EncodingSpec}
            fitting = (
                name for name, kinds in named.items() if {*alternatives(kinds)} <= {*members}
            )
            what = next(fitting, "settings")
            return what + (" or null" if type(None) in members else "")
        return " or ".join("null" if m is type(None) else _type(m) for m in members)
    if origin is tuple:
        return f"list of {members[0].__name__}"
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return "settings"
    return annotation.__name__


def _default(field: dataclasses.Field[Any]) -> str:
    value = field.default
    if value is dataclasses.MISSING:
        return "—"
    if value is None:
        return "null"
    if isinstance(value, Settings):
        return f"`{value.to_dict()['kind']}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{list(value) if isinstance(value, tuple) else value}`"


if __name__ == "__main__":
    print(settings_page(), end="")
