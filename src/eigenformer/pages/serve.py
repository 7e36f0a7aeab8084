"""The pages of a server: molecules in, predictions out; and a description of its API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from eigenformer.pages.page import make_page, render

SCRIPTS = ("serve.js", "draw.js")
"""The scripts of the page where molecules are entered."""

_ELEMENTS = ("C", "N", "O", "S", "P", "F", "Cl", "Br", "I")
_EXAMPLES = ("CCO", "CC(=O)Nc1ccc(O)cc1", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C")


def serve_page(model: Mapping[str, Any]) -> str:
    """Returns the page where molecules are entered.

    Args:
        model: What ``/api/model`` says about the model.
    """
    body = render("serve.html", model=model, examples="\n".join(_EXAMPLES), elements=_ELEMENTS)
    title = f"{model['name']} · eigenformer"
    return make_page(title, body, ("page.css", "serve.css"), SCRIPTS, model, served=True)


def api_page(schema: Mapping[str, Any]) -> str:
    """Returns a description of the API, from its OpenAPI schema."""
    body = render(
        "api.html",
        title=f"API of {schema['info']['title']}",
        version=schema["info"]["version"],
        operations=list(_operations(schema)),
    )
    return make_page(f"API · {schema['info']['title']}", body, ("page.css", "serve.css"))


@dataclass(frozen=True)
class _Operation:
    method: str
    path: str
    summary: str
    parameters: list[tuple[str, str, bool]]
    bodies: list[tuple[str, str]]
    answers: list[tuple[str, str]]
    fields: list[tuple[str, str]]


def _operations(schema: Mapping[str, Any]) -> Iterator[_Operation]:
    for path, methods in schema["paths"].items():
        for method, told in methods.items():
            content = told.get("requestBody", {}).get("content", {})
            parameters = [
                (each["name"], each.get("description", ""), each.get("required", False))
                for each in told.get("parameters", ())
            ]
            answers = [(code, each["description"]) for code, each in told["responses"].items()]
            bodies = [(kind, _example(form, schema)) for kind, form in content.items()]
            yield _Operation(
                method.upper(),
                path,
                told.get("summary", ""),
                parameters,
                bodies,
                answers,
                list(_fields(told["responses"]["200"], schema)),
            )


def _example(form: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Returns an example of a body."""
    if "example" in form:
        return form["example"]
    properties = _named(form["schema"], schema).get("properties", {})
    example = {name: each["examples"][0] for name, each in properties.items()}
    return json.dumps(example)


def _fields(answer: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Returns the fields of a JSON answer, those of its rows as well, and what they hold."""
    form = answer.get("content", {}).get("application/json", {}).get("schema", {})
    for name, each in _named(form, schema).get("properties", {}).items():
        yield name, each.get("description", "")
        for inner, part in _named(each.get("items", {}), schema).get("properties", {}).items():
            yield f"{name}[].{inner}", part.get("description", "")


def _named(form: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the schema that a reference stands for."""
    if "$ref" not in form:
        return form
    return schema["components"]["schemas"][form["$ref"].rpartition("/")[2]]
