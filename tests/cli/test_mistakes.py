"""What newcomers get wrong: one message each, that says what, where and what next; no traceback."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from eigenformer.cli import main

MISTAKES = {
    "misspelt command": ("trian zinc", "command 'trian': unknown; the nearest is 'train'"),
    "misspelt benchmark": ("train znic", "the nearest is 'zinc'"),
    "misspelt preset": (
        "train zinc --preset zink",
        "'zink': unknown; the nearest is 'zinc'",
    ),
    "preset of another dataset": ("train zinc --preset mnist", "use one of zinc, zinc-feat"),
    "preset as data": ("train zinc-feat", "is a preset; use  zinc --preset zinc-feat"),
    "misspelt ablation": ("ablate frequencies zinc-fet", "the nearest is 'zinc-feat'"),
    "no file": ("train nofile.csv --target y", "nofile.csv: there is no such file or folder"),
    "no data": ("train", "no dataset given; name a benchmark or a path"),
    "no target": ("train m.csv", "Give it with --target (columns: smiles, sol)"),
    "wrong target": ("train m.csv --target so", "column 'so': unknown; the nearest is 'sol'"),
    "wrong column": (
        "train m.csv --smiles SMILES --target sol",
        "the nearest is 'smiles' (known: smiles, sol); choose one with --smiles",
    ),
    "decimal commas": (
        "train commas.csv --target sol",
        "such as '0,5', are neither numbers (which have a decimal point) nor classes",
    ),
    "texts as a target": ("train m.csv --target smiles", "use --task multiclass if they are"),
    "two rows": ("train two.csv --target sol", "use more data or other --fractions"),
    "negative seed": ("train m.csv --target sol --seed -1", "seed: must not be negative, got -1"),
    "predictions there": ("predict run m.csv", "predictions.csv: already exists; use --out"),
    "columns of no data": (
        "evaluate run --target sol",
        "targets: only for other data; give it with --data",
    ),
    "empty file": ("train empty.csv --target y", "empty.csv: the file is empty"),
    "folder in use": ("train m.csv --target sol --out run", "resume it with  eigenformer train"),
    "no permission": ("train m.csv --target sol --out /proc/x", "/proc/x: cannot be written to"),
    "unknown setting": ("train m.csv --target sol --model.layer 3", "nearest is 'model.layers'"),
    "unknown setting and a folder in use": (
        "train m.csv --target sol --out run --model.layers 4 --training.epoch 3",
        "nearest is 'training.epochs'",
    ),
    "wrong value and a folder in use": (
        "train m.csv --target sol --out run --lr -1",
        "learning_rate: must be positive",
    ),
    "not a number": ("train m.csv --target sol --model.layers x", "expected int, got 'x'"),
    "odd heads": ("train m.csv --target sol --model.heads 7", "128 is not a multiple of heads, 7"),
    "negative rate": ("train m.csv --target sol --lr -1", "learning_rate: must be positive"),
    "no epochs": ("train m.csv --target sol --epochs 0", "epochs: must be positive"),
    "broken settings": (
        "train --config broken.yaml",
        "broken.yaml, line 3: cannot be read",
    ),
    "misspelt settings": ("train --config typo.yaml", "typo.yaml, line 2: modle: unknown"),
    "no settings": ("train --config no.yaml", "no.yaml: there is no such file"),
    "nothing to resume": ("train --resume nowhere", "nowhere: not a run folder"),
    "start of another size": (
        "train m.csv --target sol --from run --model.layers 2 --out other",
        "run: the model does not match the settings: model.layers is 1, expected 2",
    ),
    "start of another kind": (
        "train m.csv --target sol --from run --model.kind gine --out other",
        "run has the weights of a network of kind eigenformer, which do not fit model.kind gine",
    ),
    "setting of another kind": (
        "train m.csv --target sol --model.kind gine --model.phi_width 4",
        "model.phi_width: a setting of kind eigenformer, but model.kind is gine",
    ),
    "setting of a kind not chosen": (
        "train m.csv --target sol --model.typical_degree 3",
        "model.typical_degree: a setting of kind gcn or gin or gine",
    ),
    "setting of another encoder": (
        "train m.csv --target sol --model.node_encoder.kind ones --model.node_encoder.sizes 3",
        "model.node_encoder.sizes: a setting of kind categorical, but model.node_encoder.kind is",
    ),
    "backend without attention": (
        "train m.csv --target sol --model.kind gine --backend torch",
        "backend: 'torch' is a way to compute spectrum-aware attention, which gine does",
    ),
    "comparison of another network": (
        "demo --model.kind gine --model.layers 1 --data.size 12 --out other",
        "only an Eigenformer is compared with other networks, not gine",
    ),
    "kept without a checkpoint": ("train --resume kept", "its last.ckpt was not kept"),
    "no model": ("evaluate empty", "expected a run folder, or a folder with model.safetensors"),
    "another model's weights": ("evaluate mixed", "has shape"),
    "misspelt split": ("evaluate run --split tset", "split 'tset': unknown; the nearest is 'test'"),
    "nothing to predict": (
        "predict run nofile.csv --out p.csv",
        "nofile.csv: there is no such file",
    ),
    "other column": (
        "predict run m.csv --smiles smile --out p.csv",
        "the nearest is 'smiles' (known: smiles, sol); choose one with --smiles",
    ),
    "not prepared": ("data info zinc", "run  eigenformer data prepare zinc"),
    "own data not prepared": (
        "data info m.csv",
        "run  eigenformer data prepare m.csv  and then  eigenformer data info m",
    ),
    "no raw folder": ("data prepare zinc --raw-dir nowhere", "the raw folder does not exist"),
    "target for a benchmark": ("train pattern --target y", "'pattern' is a benchmark"),
    "misspelt choice": ("train m.csv --target sol --split-by scafold", "nearest is 'scaffold'"),
    "odd picture": ("figures filters run --out a.jpgg", "the nearest is 'png'"),
}
_SMALL = (
    "--epochs 1 --batch-size 4 --threads 1 "
    "--model.layers 1 --model.hidden_dim 8 --model.phi_width 2"
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A newcomer's folder: a table, a run, and some files that are not what they should be."""
    folder = tmp_path_factory.mktemp("desk")
    rows = [f"{'C' * n}{end},{n}" for n in range(1, 7) for end in ("", "O", "N")]
    (folder / "m.csv").write_text("\n".join(["smiles,sol", *rows]))
    (folder / "two.csv").write_text("\n".join(["smiles,sol", *rows[:2]]))
    commas = [f"{'C' * (n + 1)};{n},5" for n in range(20)]
    (folder / "commas.csv").write_text("\n".join(["smiles;sol", *commas]))
    (folder / "predictions.csv").write_text("mine\n")
    (folder / "empty.csv").write_text("")
    (folder / "empty").mkdir()
    (folder / "broken.yaml").write_text("preset: zinc\nmodel: [1\n")
    (folder / "typo.yaml").write_text("preset: zinc\nmodle:\n  layers: 3\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("EIGENFORMER_CACHE_DIR", str(folder / "cache"))
        train = f"train m.csv --target sol {_SMALL}"
        assert main([*train.split(), "--out", "run"]) == 0
        assert main([*train.split(), "--out", "mixed", "--model.hidden_dim", "16"]) == 0
    weights = (folder / "run" / "model.safetensors").read_bytes()
    (folder / "mixed" / "model.safetensors").write_bytes(weights)
    shutil.copytree(folder / "run", folder / "kept")
    (folder / "kept" / "last.ckpt").unlink()
    return folder


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_clear_message(
    mistake: str,
    desk: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, expected = MISTAKES[mistake]
    monkeypatch.chdir(desk)
    monkeypatch.setenv("EIGENFORMER_CACHE_DIR", str(desk / "cache"))
    monkeypatch.delenv("EIGENFORMER_RAW_DIR", raising=False)
    try:
        code = main(command.split())
    except SystemExit as stop:  # argparse
        code = stop.code
    said = capsys.readouterr().err
    assert code == 2
    assert expected in said
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) <= 2, said
    assert not (desk / "other").exists()  # nothing is left behind


@pytest.mark.parametrize("wanted", ["evaluate empty", "figures filters empty"])
def test_debug_shows_where(desk: Path, wanted: str) -> None:
    command = [sys.executable, "-m", "eigenformer", *wanted.split(), "--debug"]
    done = subprocess.run(command, cwd=desk, capture_output=True, text=True)
    assert done.returncode
    assert "Traceback" in done.stderr
    assert "model.json is missing" in done.stderr
