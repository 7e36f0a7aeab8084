"""The web page and the JSON API of a trained model, as an ASGI application."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from eigenformer import __version__
from eigenformer.data.errors import DataError
from eigenformer.limits import LimitError
from eigenformer.pages.page import page_policy
from eigenformer.pages.serve import SCRIPTS, api_page, serve_page
from eigenformer.serving.forms import (
    Attention,
    Model,
    MoleculeQuery,
    Molecules,
    Predictions,
    PredictQuery,
    Problem,
    TableQuery,
)
from eigenformer.serving.guard import Guard
from eigenformer.serving.joined_work import BusyError
from eigenformer.serving.service import MoleculeRows, Service

MOST_WEIGHTS = 1_000_000
"""The largest number of attention weights in an answer."""

_CSV = "text/csv; charset=utf-8"
_SVG = "image/svg+xml"
_ANSWER = "The answer."
_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The request cannot be read."},
    413: {"model": Problem, "description": "The request is too large."},
    422: {"model": Problem, "description": "The request, or all that it is about, is invalid."},
    503: {"model": Problem, "description": "Too many requests wait; try again later."},
}
_TABLES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": Predictions,
        "content": {"text/csv": {"schema": {"type": "string"}}},
        "description": "The predictions, in the order of the molecules.",
    },
    **_REFUSALS,
}
_TABLE_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "text/csv": {"schema": {"type": "string"}, "example": "name,smiles\nethanol,CCO\n"}
        },
    }
}


def make_app(service: Service, local: bool = True) -> FastAPI:
    """Returns the application.

    Args:
        service: What answers the requests.
        local: Whether only this machine may ask; see :class:`Guard`.
    """
    app = FastAPI(
        title=service.trained.name,
        description="Predictions of a trained model for molecules.",
        version=__version__,
        docs_url=None,  # FastAPI's pages would load scripts from elsewhere
        redoc_url=None,
        exception_handlers=_HANDLERS,
    )
    app.add_middleware(Guard, limits=service.trained.limits, local=local)
    _add_api(app, service)
    _add_pages(app, service)
    return app


def _add_api(app: FastAPI, service: Service) -> None:
    async def predictions(given: MoleculeRows, form: str) -> Response:
        found = await asyncio.wrap_future(service.predict(given))
        if form == "csv":
            return Response(given.csv(found), media_type=_CSV)
        answer = Predictions.of(service, given, found)
        return Response(answer.model_dump_json(), media_type="application/json")

    @app.get(
        "/api/model",
        summary="What the model predicts, and what it takes",
        response_description=_ANSWER,
    )
    async def model() -> Model:
        return Model.of(service)

    @app.post("/api/predict", summary="Predict for SMILES", responses=_TABLES)
    async def predict(molecules: Molecules, query: Annotated[PredictQuery, Query()]) -> Response:
        return await predictions(service.molecules(molecules.smiles), query.format)

    @app.post(
        "/api/table",
        summary="Predict for a CSV table with a column of SMILES",
        responses={**_TABLES, 415: {"model": Problem, "description": "The body is not a table."}},
        openapi_extra=_TABLE_BODY,
    )
    async def table(request: Request, query: Annotated[TableQuery, Query()]) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "text/csv":
            raise HTTPException(415, "expected a table with  Content-Type: text/csv")
        given = await asyncio.wrap_future(service.table(await request.body(), query.smiles))
        return await predictions(given, query.format)

    @app.get(
        "/api/picture",
        summary="Draw a molecule as SVG",
        response_class=Response,
        response_description=_ANSWER,
        responses={200: {"content": {_SVG: {"schema": {"type": "string"}}}}, **_REFUSALS},
    )
    async def picture(query: Annotated[MoleculeQuery, Query()]) -> Response:
        drawn = await asyncio.wrap_future(service.picture(query.smiles))
        return Response(drawn, media_type=_SVG, headers={"Cache-Control": "private, max-age=3600"})

    @app.get(
        "/api/attention",
        summary="Where each head looks in a molecule",
        response_description=_ANSWER,
        responses={200: {"model": Attention}, **_REFUSALS},
    )
    async def attention(query: Annotated[MoleculeQuery, Query()]) -> Response:
        found = await asyncio.wrap_future(service.explain(query.smiles))
        count = 0 if found.attention is None else found.attention.size
        if count > MOST_WEIGHTS:
            raise HTTPException(
                413, f"{count:,} attention weights exceed the limit of {MOST_WEIGHTS:,}"
            )
        return Response(Attention.of(found).model_dump_json(), media_type="application/json")


def _add_pages(app: FastAPI, service: Service) -> None:
    def html(page: str, scripts: tuple[str, ...] = (), served: bool = False) -> HTMLResponse:
        policy = f"{page_policy(scripts, served)}; frame-ancestors 'none'"
        return HTMLResponse(page, headers={"Content-Security-Policy": policy})

    @app.get("/", include_in_schema=False)
    async def start() -> Response:
        return html(serve_page(Model.of(service).model_dump()), SCRIPTS, served=True)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return html(api_page(app.openapi()))

    @app.get("/explain", include_in_schema=False)
    async def explain(query: Annotated[MoleculeQuery, Query()]) -> Response:
        page = await asyncio.wrap_future(service.explain_page(query.smiles))
        return html(page, ("explain.js",))


async def _problem(request: Request, error: Exception) -> JSONResponse:
    """Answers with the reason in one sentence, and never with what is inside."""
    headers = dict(getattr(error, "headers", None) or {})
    if isinstance(error, HTTPException):
        status, detail = error.status_code, str(error.detail)
    elif isinstance(error, RequestValidationError):
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        status, detail = 422, f"{place}: {first['msg']}"
    elif isinstance(error, BusyError):
        status, detail, headers = 503, str(error), {"Retry-After": "1"}
    elif isinstance(error, LimitError):
        status, detail = 413, str(error)
    elif isinstance(error, DataError):
        status, detail = 422, str(error)
    else:
        status, detail = 500, f"internal error: {type(error).__name__}"
    return JSONResponse({"detail": _printable(detail)}, status, headers)


def _printable(text: str) -> str:
    """Replaces what UTF-8 cannot encode: half of a character, which JSON can escape."""
    return text.encode("utf-8", "backslashreplace").decode()


_HANDLERS: dict[Any, Any] = dict.fromkeys(
    (HTTPException, RequestValidationError, BusyError, LimitError, DataError, Exception), _problem
)
