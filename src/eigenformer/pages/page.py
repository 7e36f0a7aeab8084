"""What all pages share: templates, filling in texts and data, and the security policy."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from eigenformer.files import write_atomic
from eigenformer.targets.base import show_number

_FILES = resources.files("eigenformer.pages") / "templates"


def template_text(name: str) -> str:
    """Returns a file of the folder ``templates``, unchanged."""
    return (_FILES / name).read_text("utf-8")


def render(name: str, /, **values: Any) -> Markup:
    """Fills in a template. Every text is escaped, unless it comes from a template."""
    return Markup(_environment().get_template(name).render(values).rstrip("\n"))


def render_macro(name: str, macro: str, /, **values: Any) -> Markup:
    """Fills in one macro of a template, like :func:`render`."""
    return getattr(_environment().get_template(name).module, macro)(**values)


def packed(values: np.ndarray) -> str:
    """Returns an array's bytes as base64, little-endian, row by row."""
    little = values.astype(values.dtype.newbyteorder("<"))
    return base64.b64encode(np.ascontiguousarray(little).tobytes()).decode()


def page_policy(scripts: tuple[str, ...] = (), served: bool = False) -> str:
    """Returns the content security policy of a page.

    It forbids every request, and every script except the page's own, which is identified by its
    checksum. A text left unescaped by mistake could do nothing.

    Args:
        scripts: The scripts of the page, in the folder ``templates``.
        served: Whether the page comes from a server of ours, which it may then ask for more.
    """
    allowed = "'none'"
    if scripts:
        digest = base64.b64encode(hashlib.sha256(_code(scripts).encode()).digest())
        allowed = f"'sha256-{digest.decode()}'"
    images = "img-src 'self' data:; connect-src 'self'" if served else "img-src data:"
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; {images}; script-src {allowed}; "
        f"base-uri 'none'; form-action 'none'"
    )


def make_page(
    title: str,
    body: str,
    styles: tuple[str, ...],
    scripts: tuple[str, ...] = (),
    data: Mapping[str, Any] | None = None,
    served: bool = False,
) -> str:
    """Returns a whole page, with the policy of :func:`page_policy`.

    Args:
        title: The title, as plain text.
        body: The result of :func:`render`; plain text is escaped.
        styles: Style sheets in the folder ``templates``.
        scripts: Scripts in the folder ``templates``, which are run one after the other.
        data: The data for the scripts, which must fit JSON.
        served: Whether the page comes from a server of ours.
    """
    return render(
        "page.html",
        title=title,
        policy=page_policy(scripts, served),
        style=Markup("\n".join(map(template_text, styles))),
        body=body,
        data=data or {},
        script=Markup(_code(scripts)),
    )


def save_page(page: str, path: str | Path) -> None:
    """Writes a page atomically."""
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{path}: pages are HTML; use a name that ends in .html")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, page.encode("utf-8"))


def _code(scripts: tuple[str, ...]) -> str:
    return "\n".join(map(template_text, scripts))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("eigenformer.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["px"] = lambda value: f"{float(value):.1f}"
    environment.filters["number"] = show_number
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False,
        "separators": (",", ":"),
        "allow_nan": False,
    }
    return environment
