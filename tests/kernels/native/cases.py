"""Random ways to call attention, and what any kernel makes of them."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from eigenformer import LaplacianSpectrum
from eigenformer.frequencies import sample_frequencies
from eigenformer.kernels import AttentionTerms, EdgeTerms, NativeAttention, TritonAttention
from eigenformer.kernels.base import signed_sqrt
from eigenformer.kernels.native import ops
from eigenformer.ragged import RaggedGraphs
from eigenformer.scalar_mlp import ScalarMLP


@dataclass
class Case:
    """One way to call attention."""

    sizes: list[int] = field(default_factory=lambda: [5, 1, 12, 41])
    heads: int = 8
    channels: int = 9
    features: bool = False
    psi: bool = True
    edge_values: bool = True
    edge_logits: bool = False
    kinds: int = 0
    factors: int = 0
    dropout: float = 0.0
    k: int | None = None
    fraction: float = 1.0
    width: int = 12
    depth: int = 2
    threads: int = 1
    seed: int = 0

    @classmethod
    def random(cls, seed: int, largest: int) -> Case:
        draw = random.Random(seed)
        # Mostly small graphs, now and then one as large as asked for.
        sizes = [draw.randint(1, 45) for _ in range(draw.randint(1, 6))]
        if draw.random() < 0.3:
            sizes.append(draw.randint(46, largest))
        case = cls(
            sizes=sizes,
            heads=draw.choice([1, 3, 8, 11, 16]),
            channels=draw.choice([1, 4, 7, 8, 9, 10, 13, 23]),
            features=draw.random() < 0.5,
            psi=draw.random() < 0.5,
            edge_values=draw.random() < 0.6,
            edge_logits=draw.random() < 0.5,
            kinds=draw.choice([0, 0, 1, 4]),
            dropout=draw.choice([0.0, 0.2, 0.5]),
            k=draw.choice([None, None, 3]),
            fraction=draw.choice([1.0, 1.0, 0.5]),
            width=draw.choice([1, 4, 28]),
            depth=draw.choice([1, 2, 3]),
            threads=draw.choice([1, 2, 3]),
            seed=seed,
        )
        case.factors = 0 if case.kinds else draw.choice([0, 1, 3])
        return case


@dataclass
class Example:
    """The tensors of a case."""

    graphs: RaggedGraphs
    phi1: ScalarMLP
    phi2: ScalarMLP
    tensors: dict[str, Tensor]
    kind: Tensor | None
    coefficients: Tensor | None
    weights: Tensor
    case: Case

    @classmethod
    def of(cls, case: Case) -> Example:
        torch.manual_seed(case.seed)
        data = [
            Data(num_nodes=n, edge_index=torch.randint(n, (2, int(torch.randint(3 * n, ())))))
            for n in case.sizes
        ]
        batch = Batch.from_data_list([LaplacianSpectrum(num_frequencies=case.k)(d) for d in data])
        if case.fraction < 1:
            batch = sample_frequencies(batch, case.fraction)
        graphs = RaggedGraphs.from_data(batch)
        edges = graphs.edge_index.size(1)
        rows = case.kinds or edges
        shape = sum(case.sizes), case.heads, case.channels
        tensors = {"values": torch.randn(shape)}
        if case.features:
            # Products exact in float32: ψ' near 0 would blow up any rounding of theirs.
            tensors["queries"], tensors["keys"] = torch.randint(-16, 17, (2, *shape)) / 8
        if case.edge_values:
            tensors["edge_values"] = torch.randn(case.factors or rows, *shape[1:])
        if case.edge_logits:
            tensors["edge_logits"] = torch.randn(rows, case.heads)
        use_kinds = case.kinds and (case.edge_values or case.edge_logits)
        return cls(
            graphs,
            ScalarMLP(case.heads, case.width, case.depth),
            ScalarMLP(case.heads, case.width, case.depth),
            tensors,
            torch.randint(case.kinds, (edges,)) if use_kinds else None,
            torch.randn(edges, case.factors) if case.factors and case.edge_values else None,
            torch.randn(shape),
            case,
        )

    def terms(self, dtype: torch.dtype = torch.float32) -> tuple[AttentionTerms, list[Tensor]]:
        """The terms, and the leaves whose gradients are wanted."""
        phi1, phi2 = (copy.deepcopy(phi).to(dtype) for phi in (self.phi1, self.phi2))
        tensors = {
            name: x.to(dtype, copy=True).requires_grad_() for name, x in self.tensors.items()
        }
        psi = signed_sqrt if self.case.psi else None
        coefficients = None if self.coefficients is None else self.coefficients.to(dtype)
        given = {name.removeprefix("edge_"): x for name, x in tensors.items() if "edge_" in name}
        edges = EdgeTerms(**given, kinds=self.kind, coefficients=coefficients)
        of_nodes = {name: x for name, x in tensors.items() if "edge_" not in name}
        terms = AttentionTerms(phi1=phi1, phi2=phi2, psi=psi, edges=edges, **of_nodes)
        return terms, [*tensors.values(), *phi1.parameters(), *phi2.parameters()]

    def in_double(self) -> RaggedGraphs:
        graphs = copy.copy(self.graphs)
        for name in ("eigenvalues", "eigenvectors", "frequency_weights"):
            value = getattr(graphs, name)
            if value is not None:
                object.__setattr__(graphs, name, value.double())
        return graphs

    def results(self, kernel: object, keep: Tensor | None, seed: Tensor) -> list[Tensor]:
        """The output and all gradients."""
        dtype = torch.float64 if kernel.graphs.eigenvalues.dtype == torch.float64 else torch.float32
        terms, leaves = self.terms(dtype)
        if isinstance(kernel, NativeAttention | TritonAttention):
            out = kernel.attend_seeded(terms, self.case.dropout, seed)
        else:
            keep = None if keep is None else keep.to(dtype)
            out = kernel.attend(terms, keep=keep)[0]
        gradients = torch.autograd.grad((out * self.weights.to(dtype)).sum(), leaves)
        return [out.detach(), *gradients]


def inputs(**changes: object) -> ops.Inputs:
    """Good inputs, but for the changes."""
    case = Case([3, 5], heads=2, channels=3, features=True, edge_logits=True, width=28, seed=1)
    example = Example.of(case)
    terms, _ = example.terms()
    good = NativeAttention(example.graphs).inputs(terms, 0.0, torch.tensor(0))
    good = ops.Inputs(*(x.detach() if isinstance(x, Tensor) else x for x in good))
    return good._replace(**{k: f(getattr(good, k)) for k, f in changes.items()})
