"""The self-check finds a backend that is wrong."""

from __future__ import annotations

import pytest
import torch

from eigenformer.kernels import Request, TorchAttention
from eigenformer.self_check import check_backends


def test_right_backends_agree() -> None:
    (check,) = check_backends(["torch"], seconds=0)
    assert check.agrees
    assert check.cases == 5


@pytest.mark.slow
def test_many_batches_agree() -> None:
    """As many as a fast machine takes in ten seconds."""
    (check,) = check_backends(["auto"], seconds=1e9)
    assert check.cases == 50
    assert check.agrees


def test_a_wrong_backend_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = TorchAttention.attend

    def wrong(self, *arguments, **named):  # type: ignore[no-untyped-def]
        out, attention = right(self, *arguments, **named)
        return out * 1.01, attention

    monkeypatch.setattr(TorchAttention, "attend", wrong)
    (check,) = check_backends(["torch"], seconds=0)
    assert not check.agrees


def test_kernels_are_asked_about_the_device_they_compute_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def choose(request: Request, _: str) -> type[TorchAttention]:
        asked.append(str(request.device))
        return TorchAttention

    monkeypatch.setattr("eigenformer.self_check.choose_kernel", choose)
    monkeypatch.setattr("eigenformer.self_check._results", lambda *_: [torch.zeros(1)])
    (check,) = check_backends(["torch"], seconds=0, device="meta")
    assert check.cases == 5
    assert set(asked) == {"meta"}
