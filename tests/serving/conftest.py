"""Untrained models of one layer behind the application, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from eigenformer.trained_model import TrainedModel
from tests.pages.conftest import browser  # noqa: F401
from tests.serving.samples import tiny_model
from tests.training.conftest import _one_thread  # noqa: F401

pytest.importorskip("rdkit")
pytest.importorskip("fastapi")
pytest.importorskip("starlette.testclient", reason="needs httpx2", exc_type=RuntimeError)


@pytest.fixture(scope="package")
def tiny() -> TrainedModel:
    return tiny_model()


@pytest.fixture
def connect(tiny: TrainedModel) -> Iterator[Callable]:
    """A client of an application; settings of the model and of the service can be changed."""
    from starlette.testclient import TestClient

    from eigenformer.serving.app import make_app
    from eigenformer.serving.service import Service

    with ExitStack() as stack:

        def connected(local: bool = True, host: str = "127.0.0.1:8000", **changes):
            given = {name: changes.pop(name) for name in ("level", "novelty") if name in changes}
            service = Service(replace(tiny, **changes), **given)
            stack.callback(service.close)
            app = make_app(service, local)
            client = TestClient(app, f"http://{host}", raise_server_exceptions=False)
            stack.enter_context(client)  # one loop for all its requests
            client.service = service
            return client

        yield connected


@pytest.fixture
def client(connect):
    return connect()
