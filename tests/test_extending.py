"""What docs/extending.md says about additions to the package: two files each, and it works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

import eigenformer
from eigenformer.targets import NumberTarget

GUIDE = Path(__file__).parent.parent / "docs" / "extending.md"

RINGS = '''
import numpy as np
import torch
from torch_geometric.data import Data

from eigenformer.data.archive import GraphArchive
from eigenformer.data.building import Builder
from eigenformer.targets import NumberTarget


def builder(name):
    return Builder((), build)


def build(files, reporter, limits):
    """Rings with random colours; the target is how many are red."""
    generator = np.random.default_rng(0)
    graphs = []
    for size in generator.integers(3, 12, 40).tolist():
        nodes = torch.arange(size)
        colour = torch.from_numpy(generator.integers(0, 3, (size, 1)))
        edges = torch.stack([nodes, nodes.roll(1)])
        edges = torch.cat([edges, edges.flip(0)], 1)
        graphs.append(Data(x=colour, edge_index=edges, y=(colour == 0).sum().float().view(1, 1)))
    split = ["train"] * 20 + ["val"] * 10 + ["test"] * 10
    return GraphArchive.from_data_list(graphs, split=split, target=NumberTarget(names=("red",)))
'''


# The self-check of doctor takes ten seconds, unless it is told to be quick.
CALL = """
import sys
import types
from functools import partial
from eigenformer import self_check
from eigenformer.cli import main
self_check.check_backends = partial(self_check.check_backends, seconds=0)
for line in sys.argv[1:]:
    assert main(line.split()) == 0, line
"""
SMALL = "--epochs 1 --batch-size 8 --model.layers 1"
COMMANDS = (
    "doctor",
    f"train pattern --data.size 12 {SMALL} --model.attention_dropout 0 --backend loop --out loop",
    f"train rings {SMALL} --model.hidden_dim 8 --out rings",
    "evaluate rings",
    f"train rings {SMALL} --model.hidden_dim 8 --model.feed_forward gated --out gated",
    "evaluate gated",
    f"train rings {SMALL} --model.kind deep_sets --out sets",
    "evaluate sets",
    f"train m.csv --target y --task mean_variance {SMALL} --model.hidden_dim 8 --out deviations",
    "predict deviations m.csv --out predictions.csv",
    f"train m.csv --target y --task mean_variance {SMALL} --model.hidden_dim 8 --ensemble 2 "
    "--side-by-side 1 --out several",
    "evaluate several",
    "data list",
)


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the commands print, in a copy of the package with a new kernel and benchmark."""
    folder = tmp_path_factory.mktemp("extended")
    package = folder / "src" / "eigenformer"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(eigenformer.__file__).parent, package, ignore=ignore)
    _add_kernel(package)
    _add_benchmark(package)
    _add_part(package)
    _add_network(package)
    _add_target(package)
    rows = (f"{'C' * size}O,{size}.5" for size in range(1, 31))
    (folder / "m.csv").write_text("\n".join(["smiles,y", *rows]), "utf-8")
    variables = {"PYTHONPATH": str(folder / "src"), "EIGENFORMER_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", CALL, *COMMANDS],
        env={**os.environ, **variables, "OMP_NUM_THREADS": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout + (folder / "predictions.csv").read_text("utf-8")


def _add_kernel(package: Path) -> None:
    """The kernel of the guide, in one file, and its name."""
    kernel = _snippet("class LoopAttention")
    (package / "kernels" / "loop.py").write_text(f"import torch\n\n{kernel}", "utf-8")
    place = '    "loop": "eigenformer.kernels.loop:LoopAttention",\n'
    _edit(package / "options.py", 'Literal["auto", ', 'Literal["auto", "loop", ')
    _edit(package / "options.py", "KERNELS = {\n", f"KERNELS = {{\n{place}")


def _add_benchmark(package: Path) -> None:
    """A benchmark, in one file, and its row."""
    (package / "data" / "rings.py").write_text(RINGS, "utf-8")
    statistics = '"rings", 40, 7, 7, True, False, "regression"'
    row = f'        Benchmark({statistics}, "eigenformer.data.rings:builder"),\n'
    first = "    for benchmark in (\n"
    _edit(package / "data" / "benchmarks.py", first, first + row)


def _add_part(package: Path) -> None:
    """The feed-forward network of the guide, in one file, and its name."""
    code = _snippet("class GatedFeedForward").partition("\n\n\nmodel =")[0]
    (package / "gated.py").write_text(f"from torch import Tensor, nn\n\n{code}\n", "utf-8")
    first = "FEED_FORWARDS = {"
    _edit(package / "options.py", first, f'{first}"gated": "eigenformer.gated:GatedFeedForward", ')


def _add_network(package: Path) -> None:
    """The network of the guide: its module in one file, its settings and their name in another."""
    imports, _, code = _snippet("class DeepSets(Model)").partition("@dataclass(frozen=True)\n")
    settings, _, module = code.partition("class DeepSets(Model)")
    module = "class DeepSets(Model)" + module.partition("\n\n\nown =")[0]
    more = "from torch import Tensor, nn\nfrom torch_geometric.data import Data\n"
    first = "from __future__ import annotations\n"
    imports = imports.replace("from eigenformer.training.in_memory import fit_in_memory\n", "")
    (package / "models" / "deep_sets.py").write_text(f"{first}{imports}{more}\n\n{module}\n")
    union = "ModelConfig = (\n"
    added = f"@dataclass(frozen=True)\n{settings}{union}    DeepSetsConfig\n    | "
    _edit(package / "config" / "networks.py", union, added)


def _add_target(package: Path) -> None:
    """The kind of target of the guide, in one file, and its name."""
    code = _snippet("class MeanVarianceTarget").partition('\n\n\nKINDS["')[0]
    code = code.replace("from eigenformer.targets import KINDS\n", "")
    imports = "import torch\nfrom eigenformer.targets.numbers import NumberTarget\n"
    (package / "targets" / "deviations.py").write_text(imports + code + "\n", "utf-8")
    file, before = package / "targets" / "__init__.py", "KnownTarget = "
    imported = "from eigenformer.targets.deviations import MeanVarianceTarget\n\n"
    _edit(file, before, f"{imported}{before}MeanVarianceTarget | ")


def test_the_units_of_the_guides_target_can_be_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ensemble averages in units, and hands the mean on as an output of its first member."""
    module = types.ModuleType("guide")
    vars(module).update(torch=torch, NumberTarget=NumberTarget)
    monkeypatch.setitem(sys.modules, "guide", module)  # where the settings look for their types
    names = vars(module)
    exec(_snippet("class MeanVarianceTarget").partition('\n\n\nKINDS["')[0], names)
    target = names["MeanVarianceTarget"](names=("y",), mean=(5.0,), scale=(2.0,))
    output = torch.randn(7, 2)
    torch.testing.assert_close(target.from_units(target.in_units(output)), output)


def _snippet(content: str) -> str:
    snippets = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text("utf-8"), re.S | re.M)
    return next(text for text in snippets if content in text)


def _edit(file: Path, before: str, after: str) -> None:
    text = file.read_text("utf-8")
    assert text.count(before) == 1
    file.write_text(text.replace(before, after), "utf-8")


def test_a_kernel_is_one_file_and_its_name(output: str) -> None:
    # It does the spectral part only, and says so: the rest goes to the next kernel.
    assert "loop for float32 on the CPU" in output
    assert re.search(r"for edges and features \(loop: it computes the spectral part only", output)
    assert re.search(r"self-check +loop agrees with literal: .* in 1 batches", output)
    assert "everything is in loop" in output


def test_a_benchmark_is_one_file_and_a_row(output: str) -> None:
    assert "rings: graph regression (red)" in output
    assert re.search(r"^rings +40 ", output, re.M)


def test_a_part_a_network_and_a_target_likewise(output: str) -> None:
    assert "model: deep_sets, preset molecules, " in output
    assert len(re.findall(r"^test mae [\d.]+ \(10 graphs\)$", output, re.M)) == 3
    assert "task: graph mean_variance (y)\n" in output
    assert "everything is in several" in output
    assert "\nsmiles,y,predicted_y,deviation_y,reason\n" in f"\n{output}"
