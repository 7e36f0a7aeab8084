"""The cases in which a result was wrong in silence, or a run was lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from safetensors.torch import load_file, save
from torch_geometric.data import Data

from eigenformer.cli import main
from eigenformer.model_folder import weights_digest
from eigenformer.training.checkpoint_io import AtomicCheckpointIO, pack_state
from tests.corpus.cases import PREDICT, Case, edited, nothing, pt, pt_folder, text, zinc
from tests.fuzz.seeds import SMALL

VERSION = {"pytorch-lightning_version": "x"}
RESUME = "train --resume run"
TRAIN = f"train m.csv --target y --out new {SMALL}"


def both(*writers: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda folder: [write(folder) for write in writers]


def read(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))


def held(folder: Path) -> FileLock:
    """Another training holds the run for as long as this lock lives."""
    lock = FileLock(folder / "run" / ".lock")
    lock.acquire()
    return lock


def weights(change: Callable[[torch.Tensor], torch.Tensor], sealed: bool = True) -> Any:
    """Other weights, with or without the right checksum."""

    def write(folder: Path) -> None:
        file = folder / "run" / "model.safetensors"
        tensors = {name: change(tensor).contiguous() for name, tensor in load_file(file).items()}
        file.write_bytes(save(tensors, {"sha256": weights_digest(tensors)} if sealed else {}))

    return write


def floats(change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return lambda tensor: change(tensor) if tensor.is_floating_point() else tensor


def molecules(*targets: object) -> Callable[[Path], object]:
    rows = (f"{'C' * number},{target}\n" for number, target in enumerate(targets, 1))
    return text("m.csv", "smiles,y\n" + "".join(rows))


def graphs(**fields: Any) -> Callable[[Path], object]:
    edges = torch.tensor([[0, 1], [1, 0]])
    made = [Data(edge_index=edges, y=torch.tensor([i / 2]), **fields) for i in range(12)]
    return pt_folder(a=pt(made))


def unfinished(folder: Path) -> None:
    """The run as if it was killed between its last checkpoint and ``metrics.csv``."""
    edited("summary.json", state="running")(folder)
    (folder / "run" / "metrics.csv").write_text("epoch\n")


def checkpoint(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """The run, not finished, with another state in its checkpoint."""

    def write(folder: Path) -> None:
        edited("summary.json", state="running")(folder)
        file = folder / "run" / "last.ckpt"
        state = AtomicCheckpointIO().load_checkpoint(file)
        change(state)
        file.write_bytes(pack_state(state))

    return write


def averages(state: dict[str, Any]) -> dict[str, Any]:
    return state["optimizer_states"][0]["state"][0]


def has_its_row(folder: Path) -> bool:
    lines = (folder / "run" / "metrics.csv").read_text().splitlines()
    return len(lines) == 2 and "finished" in (folder / "run" / "summary.json").read_text()


def leftovers(folder: Path) -> None:
    """A folder whose run was killed before its settings were in place."""
    (folder / "new").mkdir()
    (folder / "new" / ".lock").touch()
    (folder / "new" / ".config.yaml~host~1~abc").touch()


def no_leftovers(folder: Path) -> bool:
    return not any("~" in file.name for file in (folder / "new").iterdir())


def truncated_cache(folder: Path) -> None:
    molecules(*range(20))(folder)
    main(["data", "prepare", str(folder / "m.csv"), "--target", "y"])
    os.truncate(folder / "cache" / "m" / "field.x.npy", 100)


def records_differences(folder: Path) -> bool:
    found = read(folder / "new" / "summary.json")["differences"]
    return any(line.startswith("20 graphs, the paper has") for line in found)


def few_graphs(folder: Path) -> None:
    offsets = range(21)
    zinc(
        atom_type=[0] * 40,
        node_offset=[2 * n for n in offsets],
        bond=[[0, 1, 1]] * 20,
        bond_offset=list(offsets),
        y=[n / 7 for n in range(20)],
        split=[min(n // 8, 2) for n in range(20)],
    )(folder)


RUNS = {
    # One run, one process, the best weights.
    "a run that is in use": Case(held, RESUME, "run: in use by"),
    "weights of another epoch": Case(
        both(edited("model.json", epoch=7), edited("summary.json", state="running")),
        RESUME,
        "(weights of the best epoch)",  # which is the last one: they come from the checkpoint
        0,
        lambda folder: read(folder / "run" / "model.json")["epoch"] == 1,
    ),
    # NaN.
    "NaN weights": Case(
        weights(floats(lambda t: t * torch.nan)), PREDICT, "is not a finite number"
    ),
    "NaN predictions": Case(weights(floats(lambda t: t * 1e30)), PREDICT, "0 of 20 rows", 0),
    "metrics of NaN": Case(
        weights(floats(lambda t: t * 1e30)), "evaluate run --split val", "so there are no metrics"
    ),
    "features of 1e20": Case(
        graphs(x=torch.full((2, 1), 1e20), edge_attr=torch.full((2, 1), 1e38)),
        f"train graphs --out new {SMALL}",
        "check the data for extreme values",
    ),
    # Fields, rows and numbers.
    "fields of other names": Case(
        graphs(age=torch.ones(2, 1), pos=torch.ones(2, 3)),
        f"train graphs --out new {SMALL}",
        "not from 'pos', 'age'",
        0,
    ),
    "words after a SMILES": Case(
        text("m.csv", "smiles\nc1ccccc1 this is no smiles\n"), PREDICT, "0 of 1 rows", 0
    ),
    "targets that differ by little": Case(
        molecules(*(1e8 + n / 1000 for n in range(20))),
        TRAIN,
        "test mae",
        0,
        lambda folder: 1e-4 < read(folder / "new" / "summary.json")["best_validation"] < 0.1,
    ),
    "one class": Case(molecules(*["yes"] * 20), TRAIN, "all values are of one class", 0),
    "few graphs for ZINC": Case(
        few_graphs,
        f"train zinc --raw-dir raw --out new {SMALL}",
        "not the zinc of the paper (20 graphs",
        0,
        records_differences,
    ),
    # Models that contradict themselves.
    **{
        f"{name} {value}": Case(edited("model.json", **{f"target__{name}": value}), PREDICT, says)
        for name, value, says in (
            ("mean", [1.0, 2.0], "target.mean"),
            ("mean", [float("nan")], "NaN is not a number in JSON"),
            ("scale", [0.0], "no scale may be 0"),
            ("scale", [float("inf")], "Infinity is not a number in JSON"),
        )
    },
    "calibration of other targets": Case(
        edited("model.json", calibration__scores=[[0.1, 0.2], [0.1, 0.2]]),
        f"{PREDICT} --interval 0.5",
        "calibration.scores: 2 for 1 targets",
    ),
    "output that is the input": Case(
        text("m.csv", "smiles\nCCO\n"),
        "predict run m.csv --out ./m.csv",
        "m.csv: is the input; give another name",
        check=lambda folder: (folder / "m.csv").read_text() == "smiles\nCCO\n",
    ),
    "weights without a checksum": Case(weights(lambda t: t, False), PREDICT, "has no checksum"),
    "weights of whole numbers": Case(weights(lambda t: t.long()), PREDICT, "all weights must be"),
    **{
        f"weights of {kind}": Case(weights(floats(lambda t, k=kind: t.to(k))), PREDICT, str(kind))
        for kind in (torch.float8_e4m3fn, torch.bfloat16, torch.complex64)
    },
    # Checkpoints: a fused optimiser reads beyond averages that are too short.
    **{
        name: Case(checkpoint(change), RESUME, f"last.ckpt: damaged, or of another run ({says}")
        for name, change, says in (
            (
                "averages of another size",
                lambda state: averages(state).update(exp_avg=torch.zeros(1)),
                "optimizer_states.0.exp_avg has shape (1,)",
            ),
            (
                "averages of another type",
                lambda state: averages(state).update(step=torch.tensor(1, dtype=torch.int8)),
                "optimizer_states.0.step is not a number",
            ),
            (
                "averages of nothing",
                lambda state: state["optimizer_states"][0]["state"].update({99: averages(state)}),
                "optimizer_states.99 is unknown",
            ),
            (
                "weights of another model",
                lambda state: state["state_dict"].popitem(),
                "state_dict.",
            ),
            ("a version that is none", lambda state: state.update(VERSION), "pytorch-lightning_v"),
            (
                "rows of other columns",
                lambda state: state["callbacks"]["Recorder"]["rows"].append({"epoch": 2}),
                "callbacks.Recorder.rows do not",
            ),
            (
                "loops that count texts",
                lambda state: state["loops"]["fit_loop"].update(x="y"),
                "loops.fit_loop.x",
            ),
        )
    },
    # Killed at a bad moment.
    "metrics without their last row": Case(unfinished, RESUME, "test mae", 0, has_its_row),
    "killed before its settings": Case(
        both(molecules(*range(20)), leftovers), TRAIN, "test mae", 0, no_leftovers
    ),
    "truncated cache": Case(
        truncated_cache,
        "data prepare m.csv --target y",
        "field.x.npy: missing or truncated; rebuilding",
        0,
    ),
    "path that is not UTF-8": Case(nothing, f"{TRAIN} --seed 1 --name \udcff", "not valid UTF-8"),
}

ELSEWHERE = {
    "two resumes at once": "training/test_run_lock.py::test_two_trainings_of_one_run",
    "stalled and overtaken": "training/test_resume.py::"
    "test_other_weights_than_the_best_are_never_tested",
    "ties": "training/test_epoch_log.py::test_the_loss_decides_between_equal_metrics",
    "stopped early": "training/test_resume.py::"
    "test_an_early_stop_holds_if_the_run_is_killed_before_its_test",
    "SIGTERM": "test_stopping.py::test_a_command_that_does_not_listen_ends_at_the_deadline",
    "full disk": "training/test_event_file.py::"
    "test_a_full_disk_is_one_error_with_the_name_of_the_file",
    "truncated in use": "data/test_batching.py::"
    "test_a_file_that_is_truncated_while_it_is_in_use_is_an_error",
    "a killed rank": "training/test_distributed.py::"
    "test_a_process_killed_while_training_starts_is_reported",
    "pieces of φ": "kernels/native/test_networks.py::test_too_many_pieces_are_refused_at_once",
    "types of rows": "kernels/native/test_binding.py::test_bad_rows_are_errors",
    "freed memory": "kernels/native/test_address.py::"
    "test_memory_that_was_freed_or_shrunk_is_an_error",
    "data that changed": "training/test_resume.py::test_as_many_graphs_with_other_contents",
    "recorded checksums": "data/test_workspace.py::"
    "test_a_download_without_a_published_checksum_is_recorded_and_checked",
    "published checksums": "data/test_workspace.py::"
    "test_a_download_with_another_checksum_than_the_published_one_is_refused",
    "formulas out of fold": "experiments/test_together.py::test_formulas_in_the_names_of_graphs",
    "other names in networkx": "data/test_networkx_graphs.py::"
    "test_other_names_in_another_graph_are_an_error",
    "features of networkx": "data/test_networkx_graphs.py::test_predict_compares_the_names",
    "text of networkx": "data/test_networkx_graphs.py::"
    "test_what_an_attribute_holds_instead_of_numbers",
    "names of networkx": "data/test_networkx_graphs.py::test_names_that_are_not_utf8",
    "node names": "cli/test_own_graphs.py::"
    "test_tables_with_names_remarks_and_edges_in_one_direction",
    "several labels": "test_estimators.py::test_several_labels",
    "no targets": "test_estimators.py::test_targets_that_are_none",
    "small targets": "training/test_progress.py::test_small_targets_have_digits",
    "bad graphs": "training/test_prediction.py::test_a_bad_graph_in_a_folder_keeps_its_place",
    "bad graphs of archives": "training/test_prediction.py::"
    "test_a_bad_graph_of_an_archive_keeps_its_place",
    "bad graphs of tables": "training/test_prediction.py::"
    "test_a_bad_graph_of_tables_keeps_its_place",
    "lines of unknown graphs": "training/test_prediction.py::"
    "test_a_line_of_an_unknown_graph_ends_it",
    "rows between two open quotes": "training/test_prediction.py::"
    "test_two_open_quotes_swallow_no_graph",
    "cells of Parquet without text": "training/test_prediction.py::"
    "test_a_cell_of_parquet_that_has_no_text_keeps_its_place",
    "rows of weight 0": "training/test_row_weights.py::"
    "test_rows_of_weight_0_are_left_out_altogether",
    "outputs over inputs": "training/test_prediction.py::"
    "test_an_output_never_replaces_the_input_or_the_model",
}
"""What cannot be shown by one command, and the test that shows it."""
