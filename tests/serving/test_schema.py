"""Requests that Schemathesis makes from the OpenAPI schema, valid and invalid ones."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from eigenformer.serving.app import make_app
from eigenformer.serving.service import Service

schemathesis = pytest.importorskip("schemathesis", reason="needs  pip install schemathesis")


@pytest.fixture(scope="module")
def schema(tiny):
    service = Service(tiny)
    yield schemathesis.openapi.from_asgi("/openapi.json", make_app(service, local=False))
    service.close()


# What is a SMILES or a table is not for a schema to say.
_LEFT_OUT = ["positive_data_acceptance"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_every_answer_is_as_the_schema_says(schema, mode):
    """No status that is not documented, no other form of an answer, and no 5xx."""
    tried = []
    left_out = schemathesis.checks.CHECKS.get_by_names(_LEFT_OUT)
    for found in schema.get_all_operations():
        operation = found.ok()
        cases = operation.as_strategy(getattr(schemathesis.GenerationMode, mode))

        @settings(max_examples=40, suppress_health_check=list(HealthCheck))
        @given(cases)
        def check(case):
            tried.append(case.path)
            case.call_and_validate(excluded_checks=left_out)

        if mode == "POSITIVE" or operation.label != "GET /api/model":  # which takes nothing
            check()
    assert {"/api/predict", "/api/table", "/api/picture"} <= set(tried)
    assert len(tried) > 100
