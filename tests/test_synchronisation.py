"""Between a batch and its loss, a GPU tells the CPU nothing: nothing there reads a number back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Batch, Data

from eigenformer import Eigenformer, LaplacianSpectrum, scalar_mlp
from eigenformer.targets import make_target

WAITING = (
    "aten._local_scalar_dense",
    "aten.nonzero",
    "aten.masked_select",
    "aten.bincount",
    "aten._unique2",
    "aten.unique_consecutive",
    "aten.unique_dim",
    "aten.equal",
    "aten.is_nonzero",
    "aten.repeat_interleave.Tensor",
)
"""Operators for which the CPU waits, because it asks for a number or a size."""
READING = ("item", "tolist", "nonzero", "__bool__", "__int__", "__float__", "__index__", "numpy")
"""Methods that do, called in operators of the package, where no mode sees them."""


class NoWaiting(TorchDispatchMode):
    """Raises an error at every operator for which the CPU would wait."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        indices = args[1] if name.startswith(("aten.index.", "aten.index_put")) else ()
        masked = any(x is not None and x.dtype == torch.bool for x in indices)
        if name.startswith(WAITING) or masked:
            raise AssertionError(f"the CPU waits for {name}")
        return func(*args, **(kwargs or {}))


@contextmanager
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(self: Tensor, *_: Any, **__: Any) -> Any:
        raise AssertionError("the CPU waits for a number")

    with monkeypatch.context() as patch, NoWaiting():
        for name in READING:
            patch.setattr(Tensor, name, refuse)
        # What is done for the sake of a GPU is done here, too.
        patch.setattr(scalar_mlp, "_counts_knots", lambda *_: False)
        yield


def batch_for(model: Eigenformer) -> Batch:
    torch.manual_seed(0)
    graphs = []
    for n in (9, 4, 12, 3):
        edge_index = torch.randint(n, (2, 2 * n)).unique(dim=1)
        edge_attr = torch.randint(1, 4, (edge_index.size(1),))
        data = Data(x=torch.randint(9, (n,)), edge_index=edge_index, edge_attr=edge_attr)
        graphs.append(LaplacianSpectrum()(data))
    return Batch.from_data_list(graphs)


@pytest.mark.parametrize(
    ("preset", "kind", "level"),
    [
        ("zinc", "regression", "graph"),
        ("zinc-feat", "multiclass", "graph"),
        ("zinc-feat", "multiclass", "node"),
        ("zinc-plus", "multilabel", "graph"),
    ],
)
def test_a_step_waits_for_nothing(
    preset: str, kind: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = make_target(kind, level=level, num_outputs=2)
    pooling = "none" if level == "node" else "sum"
    changes = {"layers": 2, "out_channels": 2, "pooling": pooling}
    model = Eigenformer.from_preset(preset, backend="torch", **changes)
    batch = model.check(batch_for(model))
    rows = batch.num_nodes if level == "node" else 4
    truth = torch.randint(2, (rows,) if kind == "multiclass" else (rows, 2))
    if kind != "multiclass":
        truth = truth.float()
        truth[0, 0] = torch.nan
    with no_waiting(monkeypatch):
        loss = target.mean_loss(*target.loss_sums(model(batch), truth))
        loss.backward()
    assert loss.isfinite()


@pytest.mark.parametrize("preset", ["zinc", "zinc-feat", "zinc-plus"])
def test_a_step_copies_nothing_back(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device "meta" has no numbers: a copy from it to the CPU is an error."""
    monkeypatch.setattr(scalar_mlp, "_counts_knots", lambda *_: False)
    # The operator itself, not what compilers know of it; and meta has no autocast.
    monkeypatch.setattr(scalar_mlp, "find_knots", scalar_mlp.find_knots._init_fn)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)
    model = Eigenformer.from_preset(preset, backend="torch", layers=2)
    batch = model.check(batch_for(model)).to("meta")
    model = model.to("meta")
    target = make_target("regression")
    truth = torch.zeros(4, 1, device="meta")
    loss = target.mean_loss(*target.loss_sums(model(batch), truth))
    loss.backward()
    assert all(p.grad is None or p.grad.is_meta for p in model.parameters())
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        loss.cpu()


def test_what_it_watches_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Eigenformer.from_preset("zinc", backend="torch", layers=1)
    batch = batch_for(model)  # not checked before
    with pytest.raises(AssertionError, match="the CPU waits"), no_waiting(monkeypatch):
        model(batch)


def test_a_checked_batch_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Eigenformer.from_preset("zinc-feat", backend="torch", layers=2).eval()
    batch = batch_for(model)
    expected = model(batch)
    assert torch.equal(model(model.check(batch)), expected)
    assert "checked" not in batch  # the input is not changed
    monkeypatch.setattr(scalar_mlp, "_counts_knots", lambda *_: False)
    torch.testing.assert_close(model(model.check(batch)), expected)


def test_a_batch_that_was_changed_is_an_error() -> None:
    model = Eigenformer.from_preset("zinc", backend="torch", layers=1).eval()
    batch = model.check(batch_for(model))
    batch.edge_index = batch.edge_index[:, 1:]
    with pytest.raises(ValueError, match="changed after it was checked"):
        model(batch)


def test_errors_are_found_when_it_is_checked() -> None:
    model = Eigenformer.from_preset("zinc", layers=1)
    batch = batch_for(model)
    batch.x[10] = 99
    with pytest.raises(ValueError, match="graph 1 of the batch: x: type 99"):
        model.check(batch)


def test_pyg_moves_what_was_found() -> None:
    model = Eigenformer.from_preset("zinc", layers=1)
    moved = model.check(batch_for(model)).to("meta")
    assert moved.checked.node_graph.is_meta
    assert moved.checked.sizes == (9, 4, 12, 3)
