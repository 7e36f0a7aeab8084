"""What all pages share: the shell, how texts and data get in, and what a browser may do."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from eigenformer.files import write_atomic

_FILES = resources.files("eigenformer.pages") / "templates"


def template_text(name: str) -> str:
    """A file of the folder ``templates``."""
    return (_FILES / name).read_text("utf-8")


def fill(name: str, /, **parts: str) -> str:
    """A template with its ``$parts``; what is put in is not looked at again."""
    return Template(template_text(name)).substitute(parts)


def text(value: Any) -> str:
    """Any text, safe inside an element and inside a quoted attribute."""
    return html.escape(str(value), quote=True)


def packed(values: np.ndarray) -> str:
    """An array's bytes as base64, little-endian, row by row."""
    little = values.astype(values.dtype.newbyteorder("<"))
    return base64.b64encode(np.ascontiguousarray(little).tobytes()).decode()


def make_page(
    title: str,
    body: str,
    styles: tuple[str, ...],
    script: str | None = None,
    data: Mapping[str, Any] | None = None,
) -> str:
    """A whole page.

    A content security policy forbids every request, and every script except the page's own,
    which it knows by checksum: were a text to slip through unescaped, it could do nothing.

    Args:
        title: Plain text.
        body: HTML.
        styles: Files of the folder ``templates``.
        script: The same.
        data: What the script reads; fits JSON.
    """
    code = "" if script is None else template_text(script)
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    return fill(
        "page.html",
        title=text(title),
        policy=f"'sha256-{digest}'" if code else "'none'",
        style="\n".join(map(template_text, styles)),
        body=body,
        data=_json(data or {}),
        script=f"<script>{code}</script>" if code else "",
    )


def _json(data: Mapping[str, Any]) -> str:
    """JSON that holds no tag: an HTML parser reads to its end, whatever texts are in it."""
    compact = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return compact.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def save_page(page: str, path: str | Path) -> None:
    """Writes a page, whole or not at all."""
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{path}: a page is HTML; give a name that ends in .html")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, page.encode("utf-8"))
