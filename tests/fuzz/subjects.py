"""What is attacked: each subject writes one mutated input and reads it."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import yaml
from safetensors.torch import load, save

from eigenformer.cli import main
from eigenformer.config import ReadOptions, RunConfig, SplitOptions
from eigenformer.data.archive import GraphArchive
from eigenformer.data.benchmarks import BENCHMARKS, builder
from eigenformer.data.building import build_archive
from eigenformer.data.fields import SPLITS
from eigenformer.data.molecules import featurizer
from eigenformer.data.reading import read_own
from eigenformer.data.store import MANIFEST, _digest, file_digest
from eigenformer.data.unpickle import load_arrays, load_graphs_from
from eigenformer.data.workspace import Workspace
from eigenformer.data.zinc import build
from eigenformer.limits import Limits
from eigenformer.model_folder import weights_digest
from eigenformer.reporting import Reporter, SilentReporter
from eigenformer.trained_model import TrainedModel
from eigenformer.training.checkpoint_form import check_whole
from eigenformer.training.checkpoint_io import AtomicCheckpointIO
from eigenformer.training.planning import plan
from eigenformer.training.prediction import predict_file
from eigenformer.training.run_folder import RunFolder, read_yaml
from tests.fuzz import mutation, predicting, seeds
from tests.fuzz.desk import Desk, molecules
from tests.fuzz.mutation import Random


def unpickling(rng: Random, desk: Desk) -> None:
    load_arrays(io.BytesIO(mutation.raw(rng, rng.choice(desk.pickles))), "p")


def graph_files(rng: Random, desk: Desk) -> None:
    file = desk.clear() / "a.pt"
    data = rng.choice(desk.torch_files)
    if data.startswith(b"PK") and rng.random() < 0.8:
        parts = seeds.members(data)
        name = rng.choice(list(parts))
        parts[name] = mutation.raw(rng, parts[name])
        file.write_bytes(seeds.stored(parts))
    else:
        file.write_bytes(mutation.raw(rng, data))
    if rng.random() < 0.5:
        load_graphs_from(file)
    else:
        read_own(desk.new)


def molecule_tables(rng: Random, desk: Desk) -> None:
    read_own(molecules(rng, desk), _options(rng), _split(rng))


def _options(rng: Random) -> ReadOptions:
    targets = rng.choice((("sol",), ("kind",), ("sol", "kind"), (), ("smiles",), ("x",)))
    task = rng.choice((None, None, None, "binary", "multiclass", "regression", "multilabel"))
    return ReadOptions(targets=targets, task=task, featurizer=rng.choice(("ogb", "zinc")))


def _split(rng: Random) -> SplitOptions:
    return SplitOptions(split_by=rng.choice((None, None, "random", "stratified", "scaffold")))


def parquet_tables(rng: Random, desk: Desk) -> None:
    file = desk.clear() / "m.parquet"
    file.write_bytes(mutation.raw(rng, desk.parquet))
    read_own(file, _options(rng))


def graph_tables(rng: Random, desk: Desk) -> None:
    read_own(_tables(rng, desk), _table_options(rng))


def _tables(rng: Random, desk: Desk) -> Path:
    folder, changed = desk.clear(), rng.choice(list(seeds.TABLES))
    for name, rows in seeds.TABLES.items():
        rows = mutation.table(rng, rows) if name == changed else rows
        text = seeds.csv_text(rows)
        text = mutation.text(rng, text) if name == changed and rng.random() < 0.2 else text
        data = text.encode("utf-8", "surrogatepass")
        (folder / f"{name}.csv").write_bytes(data)
    return folder


def _table_options(rng: Random) -> ReadOptions:
    targets, ignored = (
        rng.choice((("y",), (), ("age",), ("w",))),
        rng.choice(((), (), ("age",), ("z",))),
    )
    ignored = () if set(ignored) & set(targets) else ignored
    return ReadOptions(targets=targets, ignored_columns=ignored, undirected=rng.random() < 0.5)


def archives(rng: Random, desk: Desk) -> None:
    archive = GraphArchive.open(_archive(rng, desk), rng.random() < 0.5, check=True)
    list(archive)
    _ = archive.names and list(archive.names), archive.statistics, archive.structure


def _archive(rng: Random, desk: Desk) -> Path:
    """An archive with altered files, whose checksums an attacker has made right again."""
    folder = desk.clear() / "archive"
    shutil.copytree(desk.folder / "archive", folder)
    manifest = desk.manifest
    if rng.random() < 0.5:
        file = rng.choice(sorted(folder.glob("*.npy")))
        file.write_bytes(mutation.raw(rng, file.read_bytes()))
        arrays = {k: dict(v) for k, v in manifest["arrays"].items()}
        arrays[file.stem] |= {"bytes": file.stat().st_size, "sha256": file_digest(file)}
        manifest = {**manifest, "arrays": arrays}
    else:
        manifest = mutation.plain(rng, manifest)
    if isinstance(manifest, dict) and rng.random() < 0.95:
        manifest = {k: v for k, v in manifest.items() if k != "sha256"}
        with contextlib.suppress(TypeError, ValueError, RecursionError):
            manifest["sha256"] = _digest(manifest)
    with contextlib.suppress(RecursionError):
        data = seeds.as_json(manifest)
        (folder / MANIFEST).write_bytes(mutation.raw(rng, data) if rng.random() < 0.05 else data)
    return folder


def benchmark_files(rng: Random, desk: Desk) -> None:
    file = desk.clear() / "zinc12k.npz"
    parts = seeds.members(desk.npz)
    name = rng.choice(list(parts))
    parts[name] = mutation.raw(rng, parts[name])
    file.write_bytes(seeds.stored(parts) if rng.random() < 0.8 else mutation.raw(rng, desk.npz))
    _build(desk, [file], lambda files: build(files, Reporter()))


def official_files(rng: Random, desk: Desk) -> None:
    """The official zip file of a benchmark, with other values in it."""
    name = rng.choice(list(seeds.OFFICIAL))
    folder, official = desk.clear(), seeds.OFFICIAL[name]
    files = [folder / official.file]
    data = official.packed(official.frozen(official.value))
    with contextlib.suppress(RecursionError):
        data = official.packed(official.frozen(mutation.plain(rng, official.value)))
    files[0].write_bytes(seeds.stored(dict.fromkeys(official.members, data)))
    if name == "zinc":
        files += [folder / f"{split}.index" for split in SPLITS]
        for index in files[1:]:
            index.write_text(mutation.text(rng, "0,1") if rng.random() < 0.1 else "0,1")
    made = builder(name, official=BENCHMARKS[name].generated)
    _build(desk, files, lambda files: made.build(files, SilentReporter(), Limits()))


def _build(desk: Desk, files: list[Path], make: Callable[[list[Path]], GraphArchive]) -> None:
    path = desk.new / "cache" / "built"
    build_archive(path, {}, lambda: files, make, SilentReporter(), lambda: files)


def settings(rng: Random, desk: Desk) -> None:
    file = desk.clear() / "config.yaml"
    text = seeds.settings_text()
    if rng.random() < 0.5:
        with contextlib.suppress(RecursionError):  # YAML cannot be written as deep as it is tried
            text = yaml.safe_dump(mutation.plain(rng, seeds.SETTINGS))
    else:
        text = mutation.text(rng, text)
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    wanted = read_yaml(file)
    RunConfig.check_part(wanted)
    Limits().check_settings(wanted)
    RunConfig.from_dict(wanted)


def planning(rng: Random, desk: Desk) -> None:
    file = desk.clear() / "config.yaml"
    with contextlib.suppress(RecursionError):
        file.write_text(yaml.safe_dump(mutation.plain(rng, seeds.SETTINGS)))
    values = read_yaml(file)
    if isinstance(values, dict) and isinstance(values.get("data"), dict):
        if values["data"].get("dataset") == "m.csv":
            values["data"]["dataset"] = str(desk.folder / "m.csv")
        plan(values, Workspace(None, desk.folder / "cache", 1, SilentReporter()))


def models(rng: Random, desk: Desk) -> None:
    folder = _run(rng, desk, ("model.json", "model.safetensors"))
    if rng.random() < 0.3:  # other tensors, with the right checksum
        tensors = load(desk.run["model.safetensors"])
        for name in rng.sample(sorted(tensors), rng.choice((1, 2, len(tensors)))):
            tensors[name] = mutation.tensor(rng, tensors[name])
        data = save(tensors, {"sha256": weights_digest(tensors)})
        (folder / "model.safetensors").write_bytes(data)
    trained = TrainedModel.open(folder)
    if rng.random() < 0.1:
        predict_file(trained, desk.folder / "few.csv", desk.folder / "out.csv")


def checkpoints(rng: Random, desk: Desk) -> None:
    state = AtomicCheckpointIO().load_checkpoint(_run(rng, desk, ("last.ckpt",)) / "last.ckpt")
    check_whole(state)


def run_folders(rng: Random, desk: Desk) -> None:
    from eigenformer.analysis.curves import run_curves

    folder = RunFolder.open(_run(rng, desk, ("summary.json", "metrics.csv", "config.yaml")))
    run_curves([folder.path])
    folder.read_config()


def _run(rng: Random, desk: Desk, names: tuple[str, ...]) -> Path:
    """The run with one altered file."""
    folder, changed = desk.clear() / "run", rng.choice(names)
    folder.mkdir()
    for name, data in desk.run.items():
        if name == changed:
            if name.endswith(".json") and rng.random() < 0.9:
                with contextlib.suppress(RecursionError):
                    data = seeds.as_json(mutation.plain(rng, json.loads(data)))
            elif name.endswith(".ckpt") and rng.random() < 0.8:
                parts = seeds.members(data)
                part = rng.choice(list(parts))
                if part.endswith(".json") and rng.random() < 0.8:
                    with contextlib.suppress(RecursionError):
                        state = mutation.plain(rng, json.loads(parts[part]))
                        parts[part] = seeds.as_json(state)
                else:
                    parts[part] = mutation.raw(rng, parts[part])
                data = seeds.stored(parts)
            elif name.endswith(".csv") and rng.random() < 0.8:
                rows = [line.split(",") for line in data.decode().splitlines()]
                data = seeds.csv_text(mutation.table(rng, rows)).encode("utf-8", "surrogatepass")
            else:
                data = mutation.raw(rng, data)
        (folder / name).write_bytes(data)
    return folder


def smiles(rng: Random, desk: Desk) -> None:
    text = mutation.text(rng, rng.choice((*mutation.SMILES, *(row[0] for row in seeds.MOLECULES))))
    featurizer(rng.choice(("ogb", "zinc")))(text)


def predictions(rng: Random, desk: Desk) -> None:
    form = rng.randrange(3)
    source = (molecules, _tables, _archive)[form](rng, desk)
    predict_file(desk.trained, source, desk.folder / "out.csv", escape_formulas=True)


def commands(rng: Random, desk: Desk) -> None:
    """A command with a mutated input, or with mutated arguments."""
    kind = rng.choice(
        ("prepare", "info", "list", "predict", "explain", "report", "runs", "evaluate", "words")
    )
    cache = ["--cache-dir", str(desk.folder / "cache2")]
    out = ["--out", str(desk.folder / "out")]
    if kind == "prepare":
        source = rng.choice((molecules, _tables, _archive))(rng, desk)
        words = ["data", "prepare", str(source), *cache, *rng.choice(([], ["--target", "sol"]))]
    elif kind == "info":
        words = ["data", "info", str(_archive(rng, desk)), *cache]
    elif kind == "list":
        _archive(rng, desk)
        words = ["data", "list", "--cache-dir", str(desk.new)]
    elif kind == "predict":
        words = ["predict", str(desk.folder / "run"), str(molecules(rng, desk)), *out]
    elif kind == "explain":
        words = ["explain", str(desk.folder / "run"), str(_tables(rng, desk)), *out, *cache]
    elif kind == "words":
        words = _words(rng, desk)
    else:
        names = ("summary.json", "metrics.csv", "config.yaml", "model.json", "model.safetensors")
        folder = _run(rng, desk, names)
        words = {
            "report": ["report", str(folder), *out, *cache],
            "runs": [rng.choice(("runs", "table")), str(folder.parent)],
            "evaluate": ["evaluate", str(folder), *cache],
        }[kind]
    call(words)


def _words(rng: Random, desk: Desk) -> list[str]:
    lines = (
        f"predict {desk.folder}/run {desk.folder}/m.csv --out {desk.folder}/out --threads 1",
        f"evaluate {desk.folder}/run --split test --device cpu",
        f"data prepare {desk.folder}/m.csv --target sol --fractions 0.8 0.1 0.1 --seed 1",
        f"data prepare {desk.folder}/tables --target y --ignore age --undirected --workers 1",
        f"explain {desk.folder}/run CCO --index 0 --limits atoms=20k",
        f"train {desk.folder}/m.csv --target sol --resume {desk.folder}/none --model.layers 1",
        "train --config none.yaml --epochs 1 --data.limit 3 --patience 2 --precision 32",
        "presets --debug",
        "data info m --limits atoms=20k columns=5",
    )
    words = rng.choice(lines).split()
    for _ in range(rng.choice((1, 1, 2))):
        place = rng.randrange(1, len(words) + 1)
        action = rng.randrange(3)
        if action == 0 and len(words) > 2:
            del words[place : place + 1]
        elif action == 1:
            words[place : place + 1] = [str(rng.choice((*mutation.TEXTS, *mutation.INTEGERS)))]
        else:
            words.insert(place, str(rng.choice((*mutation.TEXTS, *mutation.FLOATS, "--x", "-1"))))
    return [word for word in words if "\0" not in word and not word.startswith("/etc")]


def call(words: list[str]) -> None:
    """Runs a command in this process; only what is not said in a sentence is raised."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            main([*words, "--debug"])
        except SystemExit:  # argparse
            return


SUBJECTS: dict[Callable[[Random, Desk], None], int] = {
    unpickling: 40,
    graph_files: 16,
    molecule_tables: 5,
    parquet_tables: 4,
    graph_tables: 8,
    archives: 8,
    benchmark_files: 4,
    official_files: 4,
    settings: 4,
    planning: 1,
    models: 2,
    checkpoints: 6,
    run_folders: 4,
    smiles: 12,
    predictions: 1,
    commands: 1,
    predicting.streams: 2,
    predicting.partial_files: 2,
    predicting.references: 1,
    predicting.ensembles: 1,
    predicting.descriptors: 1,
}
"""Each subject and how often it is chosen, relative to the others: the fast ones more often."""
