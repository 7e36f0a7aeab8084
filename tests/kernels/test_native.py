"""The native kernel against the oracle: outputs, every gradient, bad inputs, threads, compilers."""

from __future__ import annotations

import copy
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from eigenformer import Eigenformer, LaplacianSpectrum
from eigenformer.kernels import (
    AttentionTerms,
    GroupedAttention,
    LiteralAttention,
    NativeAttention,
    prepare,
)
from eigenformer.kernels.base import signed_sqrt
from eigenformer.kernels.native import library, load, ops
from eigenformer.ragged import RaggedGraphs
from eigenformer.scalar_mlp import ScalarMLP

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(load()[0] is None, reason=load()[1])


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    threads, instructions = torch.get_num_threads(), library().instructions
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
    library().use_instructions(instructions)


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
        return cls(
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


@dataclass
class Example:
    """The tensors of a case."""

    graphs: RaggedGraphs
    phi1: ScalarMLP
    phi2: ScalarMLP
    tensors: dict[str, Tensor]
    kind: Tensor | None
    weights: Tensor
    case: Case

    @classmethod
    def of(cls, case: Case) -> Example:
        torch.manual_seed(case.seed)
        data = [
            Data(num_nodes=n, edge_index=torch.randint(n, (2, int(torch.randint(3 * n, ())))))
            for n in case.sizes
        ]
        batch = Batch.from_data_list([LaplacianSpectrum(k=case.k)(d) for d in data])
        graphs = RaggedGraphs.from_data(batch)
        if case.fraction < 1:
            graphs = graphs.draw_frequencies(case.fraction)
        edges = graphs.edge_index.size(1)
        rows = case.kinds or edges
        shape = sum(case.sizes), case.heads, case.channels
        tensors = {"values": torch.randn(shape)}
        if case.features:
            # Products exact in float32: ψ' near 0 would blow up any rounding of theirs.
            tensors["queries"], tensors["keys"] = torch.randint(-16, 17, (2, *shape)) / 8
        if case.edge_values:
            tensors["edge_values"] = torch.randn(rows, *shape[1:])
        if case.edge_logits:
            tensors["edge_logits"] = torch.randn(rows, case.heads)
        use_kinds = case.kinds and (case.edge_values or case.edge_logits)
        return cls(
            graphs,
            ScalarMLP(case.heads, case.width, case.depth),
            ScalarMLP(case.heads, case.width, case.depth),
            tensors,
            torch.randint(case.kinds, (edges,)) if use_kinds else None,
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
        terms = AttentionTerms(phi1=phi1, phi2=phi2, psi=psi, edge_kind=self.kind, **tensors)
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
        native = isinstance(kernel, NativeAttention)
        dtype = torch.float64 if kernel.graphs.eigenvalues.dtype == torch.float64 else torch.float32
        terms, leaves = self.terms(dtype)
        if native:
            out = kernel.attend_seeded(terms, self.case.dropout, seed)
        else:
            keep = None if keep is None else keep.to(dtype)
            out = kernel.attend(terms, keep=keep)[0]
        gradients = torch.autograd.grad((out * self.weights.to(dtype)).sum(), leaves)
        return [out.detach(), *gradients]


def check(case: Case) -> None:
    """Native float32 must be as near to the exact result as the oracle in float32 is."""
    torch.set_num_threads(case.threads)
    example = Example.of(case)
    kernel = NativeAttention(example.graphs)
    seed = torch.tensor(case.seed * 7919 + 1)
    keep = kernel.keep(case.heads, case.dropout, seed) if case.dropout else None
    exact = example.results(LiteralAttention(example.in_double()), keep, seed)
    literal = example.results(LiteralAttention(example.graphs), keep, seed)
    native = example.results(kernel, keep, seed)
    # φ₁'s last bias shifts all logits alike: its gradient is 0, and what is seen is rounding.
    scale = max(float(x.abs().max()) for x in exact if x.numel())
    for number, (a, b, c) in enumerate(zip(native, literal, exact, strict=True)):
        if not c.numel():
            continue
        size = float(c.abs().max())
        allowed = 8 * float((b - c).abs().max()) + 2e-5 * size + 2e-6 * scale
        error = float((a - c).abs().max())
        assert error <= allowed, f"result {number}: {error} > {allowed} (size {size}) in {case}"


@pytest.mark.parametrize("seed", range(40))
def test_equals_the_literal_kernel(seed: int) -> None:
    check(Case.random(seed, largest=100))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_equals_the_literal_kernel_thousands_of_times(block: int) -> None:
    for seed in range(1000 + 75 * block, 1075 + 75 * block):
        check(Case.random(seed, largest=100 if seed % 25 else 500))


@pytest.mark.parametrize("name", ["baseline", "x86_64_v3"])
def test_every_instruction_set_is_exact(name: str) -> None:
    try:
        library().use_instructions(name)
    except ValueError:
        pytest.skip(f"{name} was not compiled")
    if name != "baseline" and not torch.backends.cpu.get_cpu_capability().startswith("AVX"):
        pytest.skip(f"this processor has no {name}")
    for seed in range(6):
        check(Case.random(seed, largest=60))


def test_without_edges() -> None:
    cases = (Case([1], edge_logits=True, features=True, seed=seed) for seed in range(50))
    check(next(case for case in cases if not Example.of(case).graphs.edge_index.size(1)))


def test_large_graph_in_parts() -> None:
    check(Case(sizes=[230, 3], features=True, edge_logits=True, threads=2, dropout=0.3))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_same_bits_every_time(threads: int) -> None:
    torch.set_num_threads(threads)
    case = Case(
        [150, 3, 20, 31], features=True, edge_logits=True, kinds=4, dropout=0.4, threads=threads
    )
    example = Example.of(case)
    seed = torch.tensor(5)
    first = example.results(NativeAttention(example.graphs), None, seed)
    for _ in range(5):
        again = example.results(NativeAttention(example.graphs), None, seed)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_dropout_follows_torch_seed() -> None:
    example = Example.of(Case(dropout=0.5))
    kernel = NativeAttention(example.graphs)
    terms, _ = example.terms()
    torch.manual_seed(3)
    first, second = kernel.attend(terms, 0.5)[0], kernel.attend(terms, 0.5)[0]
    torch.manual_seed(3)
    assert torch.equal(first, kernel.attend(terms, 0.5)[0])
    assert not torch.equal(first, second)


def test_dropout_mask_is_fair_and_independent() -> None:
    keep = library().dropout(torch.tensor([64] * 8), 16, 0.3, seed=123).view(16, 8, 64, 64)
    dropped = (keep == 0).double()
    assert torch.equal(keep.unique(), torch.tensor([0.0, 1 / (1 - 0.3)]))
    total = dropped.numel()
    assert abs(float(dropped.mean()) - 0.3) < 4 * (0.21 / total) ** 0.5
    # Neighbours in any direction, and the transposed pair, tell nothing about each other.
    for shifted in (
        dropped.roll(1, 0),
        dropped.roll(1, 1),
        dropped.roll(1, 2),
        dropped.roll(1, 3),
        dropped.mT.roll(1, 3),
        (library().dropout(torch.tensor([64] * 8), 16, 0.3, 124) == 0).double().view_as(dropped),
    ):
        both = float(((dropped - 0.3) * (shifted - 0.3)).mean()) / 0.21
        assert abs(both) < 5 / total**0.5


def test_weights_may_change_between_calls() -> None:
    example = Example.of(Case())
    kernel = NativeAttention(example.graphs)
    terms, _ = example.terms()
    kernel.tabulate([(terms.phi1, terms.phi2)])
    before = kernel.attend(terms)[0]
    with torch.no_grad():
        terms.phi1.weights[0].mul_(-3)
    after, expected = kernel.attend(terms)[0], LiteralAttention(example.graphs).attend(terms)[0]
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, expected, rtol=1e-4, atol=1e-5)


def test_a_nan_is_not_hidden() -> None:
    example = Example.of(Case(sizes=[4, 6], edge_values=False))
    terms, _ = example.terms()
    with torch.no_grad():
        terms.values[1] = torch.nan
    out = NativeAttention(example.graphs).attend(terms)[0]
    assert out[:4].isnan().all()
    assert out[4:].isfinite().all()


@pytest.mark.parametrize("kinds", [0, 4, 300])
def test_model_equals_literal(kinds: int) -> None:
    graphs = [
        Data(
            x=torch.randint(21, (n, 1)),
            edge_index=torch.randint(n, (2, 2 * n)).unique(dim=1),
        )
        for n in (9, 4, 30)
    ]
    for graph in graphs:
        edges = graph.edge_index.size(1)
        graph.edge_attr = torch.randn(edges, 1) if not kinds else torch.randint(kinds, (edges,))
    batch = Batch.from_data_list([LaplacianSpectrum()(g) for g in graphs])
    encoder = {"kind": "embedding", "num_types": kinds} if kinds else {
        "kind": "linear", "in_channels": 1,
    }  # fmt: skip
    model = Eigenformer.from_preset(
        "zinc-feat", layers=3, edge_encoder=encoder, psi="identity"
    ).eval()
    results = {}
    for backend in ("literal", "torch", "native"):
        model.config = model.config.replace(attention_backend=backend)
        model.zero_grad()
        out = model(batch)
        out.square().sum().backward()
        results[backend] = [out.detach(), *(p.grad.clone() for p in model.parameters())]
    scale = max(float(g.abs().max()) for g in results["literal"])
    for backend in ("torch", "native"):
        for a, b in zip(results[backend], results["literal"], strict=True):
            torch.testing.assert_close(a, b, rtol=2e-3, atol=1e-5 * scale)


class TestWhatItLeavesToTorch:
    def test_auto_is_native_for_float32_and_torch_for_the_rest(self) -> None:
        example = Example.of(Case())
        assert isinstance(prepare(example.graphs), NativeAttention)
        for backend in ("auto", "native"):
            assert isinstance(prepare(example.in_double(), backend), GroupedAttention)
        with pytest.raises(TypeError, match="float32"):
            NativeAttention(example.in_double())

    def test_without_the_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        example = Example.of(Case())
        missing = None, "it was not compiled"
        monkeypatch.setattr("eigenformer.kernels.load", lambda: missing)
        monkeypatch.setattr("eigenformer.kernels.native.binding.load", lambda: missing)
        assert isinstance(prepare(example.graphs), GroupedAttention)
        with pytest.raises(ValueError, match="not compiled"):
            prepare(example.graphs, "native")

    def test_returned_attention_and_given_factors(self) -> None:
        example = Example.of(Case())
        kernel = NativeAttention(example.graphs)
        terms, _ = example.terms()
        out, attention = kernel.attend(terms, return_attention=True)
        torch.testing.assert_close(out, kernel.attend(terms)[0], rtol=1e-4, atol=1e-5)
        assert attention is not None
        assert [a.shape for a in attention] == [(8, n, n) for n in example.graphs.sizes]
        keep = torch.ones(8, sum(n * n for n in example.graphs.sizes))
        torch.testing.assert_close(kernel.attend(terms, keep=keep)[0], out)

    def test_other_functions(self) -> None:
        example = Example.of(Case())
        kernel = NativeAttention(example.graphs)
        terms, _ = example.terms()
        kernel.tabulate([(terms.phi1, torch.tanh)])  # nothing to do together: no error
        odd = AttentionTerms(phi1=terms.phi1, phi2=torch.cos, values=terms.values)
        expected = LiteralAttention(example.graphs).attend(odd)[0]
        torch.testing.assert_close(kernel.attend(odd)[0], expected, rtol=1e-4, atol=1e-5)


def inputs(**changes: object) -> ops.Inputs:
    """Good inputs, but for the changes."""
    case = Case([3, 5], heads=2, channels=3, features=True, edge_logits=True, width=28, seed=1)
    example = Example.of(case)
    terms, _ = example.terms()
    good = NativeAttention(example.graphs).inputs(terms, 0.0, torch.tensor(0))
    good = ops.Inputs(*(x.detach() if isinstance(x, Tensor) else x for x in good))
    return good._replace(**{k: f(getattr(good, k)) for k, f in changes.items()})


BAD = {
    "values of another type": {"values": Tensor.double},
    "values without channels": {"values": lambda x: x[..., 0]},
    "values of no node": {"values": lambda x: x[:0]},
    "values not contiguous": {"values": lambda x: x.mT.contiguous().mT},
    "queries too short": {"queries": lambda x: x[1:]},
    "queries missing": {"queries": lambda x: None},
    "keys of half precision": {"keys": Tensor.half},
    "eigenvectors too short": {"eigenvectors": lambda x: x[1:]},
    "eigenvectors too long": {"eigenvectors": lambda x: torch.cat([x, x])},
    "importance of another head": {"importance": lambda x: x[:, :1].contiguous()},
    "importance too short": {"importance": lambda x: x[1:]},
    "knots not sorted": {"knots": lambda x: x.flip(1).contiguous()},
    "knots not finite": {"knots": lambda x: torch.full_like(x, torch.nan)},
    "slopes too few": {"slopes": lambda x: x[:, 1:].contiguous()},
    "slopes none": {"slopes": lambda x: x[:, :0]},
    "intercepts not contiguous": {"intercepts": lambda x: x.T.contiguous().T},
    "no graphs": {"first_node": lambda x: x[:1], "first_frequency": lambda x: x[:1]},
    "first_node empty": {"first_node": lambda x: x[:0]},
    "first_node of another type": {"first_node": Tensor.int},
    "first_node not from 0": {"first_node": lambda x: x + 1},
    "first_node descends": {"first_node": lambda x: torch.tensor([0, 9, 8])},
    "first_node with an empty graph": {"first_node": lambda x: torch.tensor([0, 0, 8])},
    "first_node too far": {"first_node": lambda x: torch.tensor([0, 3, 2**40])},
    "first_node negative": {"first_node": lambda x: torch.tensor([0, -(2**40), 8])},
    "first_node elsewhere": {"first_node": lambda x: torch.tensor([0, 5, 8])},
    "first_frequency too far": {"first_frequency": lambda x: torch.tensor([0, 3, 2**40])},
    "first_frequency huge": {"first_frequency": lambda x: torch.tensor([0, 2**62, 2**62])},
    "first_edge descends": {"first_edge": lambda x: x.flip(0)},
    "first_edge too far": {"first_edge": lambda x: x + 2**40 * (x > 0)},
    "edge_source outside": {"edge_source": lambda x: x + 5},
    "edge_source negative": {"edge_source": lambda x: x - 2**40},
    "edge_kind outside": {"edge_kind": lambda x: x + 1},
    "edge_kind negative": {"edge_kind": lambda x: -x - 1},
    "edge_kind repeated": {"edge_kind": lambda x: x * 0},
    "edge_kind too short": {"edge_kind": lambda x: x[1:]},
    "edge_logits too many": {"edge_logits": lambda x: torch.cat([x, x])},
    "edge_values too few": {"edge_values": lambda x: x[1:]},
    "dropout of 1": {"dropout": lambda x: 1.0},
    "dropout negative": {"dropout": lambda x: -0.1},
    "dropout not a number": {"dropout": lambda x: float("nan")},
    "psi unknown": {"psi": lambda x: 7},
    "psi without features": {"psi": lambda x: 0},
}


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD.keys())
def test_bad_inputs_are_errors(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        ops.attention(*inputs(**changes))
    good = inputs()
    outputs = ops.attention(*good)
    with pytest.raises((ValueError, RuntimeError)):
        ops.attention_backward(*inputs(**changes), *outputs, torch.ones_like(outputs[0]))


def test_bad_gradient_is_an_error() -> None:
    good = inputs()
    outputs = ops.attention(*good)
    for wrong in (outputs[0].double(), outputs[0][1:], outputs[0].mT.contiguous().mT):
        with pytest.raises(ValueError, match="d_out"):
            ops.attention_backward(*good, *outputs, wrong)


def test_bad_pieces_are_errors() -> None:
    x, knots, slopes = torch.rand(5), torch.rand(4, 2).sort().values, torch.rand(4, 3)
    assert ops.pieces(x, knots, slopes, slopes, 2).shape == (2, 5, 2)
    assert ops.pieces(x[:0], knots, slopes, slopes, 2).shape == (2, 0, 2)
    for wrong in (
        (x.double(), knots, slopes, slopes, 2),
        (x, knots[:, :1].contiguous(), slopes, slopes, 2),
        (x, knots.flip(1).contiguous(), slopes, slopes, 2),
        (x, knots, slopes, slopes[1:], 2),
        (x, knots, slopes, slopes, 3),
        (x, knots, slopes, slopes, 0),
        (x[None], knots, slopes, slopes, 2),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            ops.pieces(*wrong)


class TestCompilers:
    def test_opcheck(self) -> None:
        differentiable = {"importance", "slopes", "intercepts", "values", "queries", "keys"}
        differentiable |= {"edge_logits", "edge_values"}
        arguments = inputs(
            **{name: lambda x: x.clone().requires_grad_() for name in differentiable}
        )
        torch.library.opcheck(ops.attention, arguments)
        outputs = [x.detach() for x in ops.attention(*arguments)]
        plain = [x.detach() if isinstance(x, Tensor) else x for x in arguments]
        torch.library.opcheck(ops.attention_backward, (*plain, *outputs, outputs[0]))

    def test_opcheck_of_pieces(self) -> None:
        slopes = torch.rand(4, 3, requires_grad=True)
        knots = torch.rand(4, 2).sort().values
        torch.library.opcheck(ops.pieces, (torch.rand(5), knots, slopes, slopes.detach(), 2))

    def test_compile_without_a_break(self) -> None:
        example = Example.of(Case(features=True, edge_logits=True))
        kernel = NativeAttention(example.graphs)
        terms, leaves = example.terms()
        arguments = kernel.inputs(terms, 0.3, torch.tensor(1))

        def attend(values: Tensor) -> Tensor:
            return ops.attention(*arguments._replace(values=values.relu()))[0].square()

        compiled = torch.compile(attend, backend="aot_eager", fullgraph=True)
        for function in (attend, compiled):
            terms.values.grad = None
            function(terms.values).sum().backward(retain_graph=True)
            leaves.append(terms.values.grad.clone())
        torch.testing.assert_close(leaves[-1], leaves[-2])

    def test_export(self) -> None:
        arguments = inputs()

        class Attend(nn.Module):
            def forward(self, values: Tensor) -> Tensor:
                return ops.attention(*arguments._replace(values=values))[0]

        program = torch.export.export(Attend(), (arguments.values,))
        expected = ops.attention(*arguments)[0]
        assert torch.equal(program.module()(arguments.values), expected)


def run_python(code: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_one_openmp_runtime() -> None:
    code = """
import torch
from eigenformer.kernels.native import library, ops
torch.set_num_threads(2)
from tests.kernels.test_native import Case, Example, NativeAttention
example = Example.of(Case(sizes=[200, 100], threads=2))
example.results(NativeAttention(example.graphs), None, torch.tensor(0))
names = {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
print(library().shares_threads, len([n for n in names if "gomp" in n or "omp5" in n]))
"""
    output = run_python(code, PYTHONPATH=f"{ROOT / 'src'}{os.pathsep}{ROOT}")
    assert output.split() == ["True", "1"]


@pytest.mark.slow
def test_4096_nodes_train_in_little_memory() -> None:
    code = """
import resource, torch
from torch_geometric.data import Data
from eigenformer import Eigenformer, LaplacianSpectrum
n = 4096
edges = torch.randint(n, (2, 3 * n))
data = Data(x=torch.randint(21, (n, 1)), edge_index=edges, edge_attr=torch.randint(1, 4, (3 * n,)))
data = LaplacianSpectrum(k=64)(data)
model = Eigenformer.from_preset("zinc", attention_backend="native")
model(data).sum().backward()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    assert int(run_python(code)) / 2**20 < 3


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_with_sanitizers(tmp_path: Path) -> None:
    """The same tests on a build that reports every bad address and every undefined result."""
    for name in ("src", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, tmp_path)
    sanitizers = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -O1 -g"
    environment = {
        **os.environ,
        "EIGENFORMER_NATIVE_FLAGS": sanitizers,
        "PYTHONPATH": str(tmp_path / "src"),
    }
    build = [sys.executable, "setup.py", "build_ext", "--inplace"]
    subprocess.run(build, cwd=tmp_path, env=environment, check=True, capture_output=True)
    libraries = [
        subprocess.run(
            ["g++", f"-print-file-name={name}.so"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan", "libubsan")
    ]
    environment |= {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    chosen = "equals_the_literal or bad_ or same_bits or in_parts or instruction"
    test = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    test += ["-m", "not slow", "-k", chosen, "tests/kernels/test_native.py"]
    result = subprocess.run(test, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert " passed" in result.stdout  # and not: all skipped, because the library did not load
