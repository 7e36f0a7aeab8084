"""The claims of docs/performance.md, as ratios within one run: minutes, on a quiet machine."""

from __future__ import annotations

import time

import pytest
import torch
from torch_geometric.data import Batch, Data

from eigenformer import LaplacianSpectrum, SpectrumAwareAttention
from eigenformer.kernels import AttentionTerms, NativeAttention, make_kernel
from eigenformer.kernels.native import load, ops
from eigenformer.ragged import RaggedGraphs
from eigenformer.speed import Setup, measure

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(load()[0] is None, reason=load()[1]),
]


def test_zinc_step_against_literal_and_gps() -> None:
    literal = measure(Setup("literal", repeats=1))
    native, gps = measure(Setup("native")), measure(Setup("gps"))
    assert literal.memory is not None
    assert native.memory is not None
    assert literal.cpu > 80 * native.cpu
    assert native.cpu < 0.8 * gps.cpu
    assert literal.memory > 40 * native.memory


def test_peptides_step_in_little_memory() -> None:
    native = measure(Setup("native", "peptides", repeats=1))
    assert native.memory is not None
    assert native.memory < 2048


def test_two_threads() -> None:
    torch.manual_seed(0)
    graphs = []
    for n in torch.randint(10, 38, (128,)).tolist():
        path = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
        graphs.append(Data(num_nodes=n, edge_index=torch.cat([path, path.flip(0)], 1)))
    batch = RaggedGraphs.from_data(Batch.from_data_list(LaplacianSpectrum().many(graphs)))
    kernel = make_kernel(batch, "native")
    layer = SpectrumAwareAttention(72)
    values = torch.randn(batch.num_nodes, 8, 9)
    assert isinstance(kernel, NativeAttention)
    terms = AttentionTerms(phi1=layer.phi1, phi2=layer.phi2, values=values)
    inputs = kernel.inputs(terms, 0.2, torch.tensor(1))
    inputs = [x.detach() if isinstance(x, torch.Tensor) else x for x in inputs]
    best = {1: float("inf"), 2: float("inf")}
    before = torch.get_num_threads()
    for threads in (1, 2) * 50:
        torch.set_num_threads(threads)
        start = time.perf_counter()
        outputs = ops.attention(*inputs)
        ops.attention_backward(*inputs, *outputs, outputs[0])
        best[threads] = min(best[threads], time.perf_counter() - start)
    torch.set_num_threads(before)
    assert best[1] > 1.7 * best[2]
