"""The folder of a run: self-describing, with files that are never half-written.

======================  ============================================================
``config.yaml``         all settings, rerunnable with ``--config``
``metrics.csv``         one line per epoch
``tensorboard/``        the same metrics as TensorBoard events
``model.safetensors``   the best weights
``model.json``          everything else needed to predict with them
``last.ckpt``           the state after the last complete epoch, to resume from
``summary.json``        metrics, parameters, time, memory, versions
======================  ============================================================
"""

from __future__ import annotations

import csv
import io
import json
import math
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from eigenformer.config import ConfigError, RunConfig, parse_yaml
from eigenformer.config.forms import check_form
from eigenformer.config.json_text import parse_json
from eigenformer.config.old_formats import upgrade_run
from eigenformer.data.stored_zip import DAMAGED
from eigenformer.files import check_path, is_temporary, write_atomic
from eigenformer.model_folder import check_single

CONFIG, METRICS, CHECKPOINT, SUMMARY = "config.yaml", "metrics.csv", "last.ckpt", "summary.json"
LOGS = "tensorboard"
LOCK, HOLDER = ".lock", ".running.json"
"""The lock of the process that trains, and who it is. See ``run_lock.py``."""
_MOST_EPOCHS, _HUGE = 10**9, 1e100
_NUMBER, _COUNT, _TEXT = (int, float, None), (int, None), (str, None)
_SUMMARY_FORM = {
    **dict.fromkeys(("dataset?", "preset?", "metric?", "state?"), str),
    **dict.fromkeys(("started?", "git_revision?"), _TEXT),
    **dict.fromkeys(("epochs?", "epochs_planned?", "seed?", "parameters?"), int),
    **dict.fromkeys(("threads?", "processes?"), int),
    **dict.fromkeys(("best_epoch?", "limit?", "size?"), _COUNT),
    **dict.fromkeys(("best_validation?", "test?", "seconds_per_epoch?"), _NUMBER),
    "peak_memory_mb?": _NUMBER,
    "higher_is_better?": bool,
    "graphs?": {str: int},
    "differences?": [str],
    "train?": {str: _NUMBER},
    "test_metrics?": {str: _NUMBER},
    "versions?": {str: _TEXT},
    "earlier?": [{str: object}],
}
_FINISHED = ("dataset", "preset", "seed", "metric", "parameters", "epochs_planned", "best_epoch")
_FINISHED_FORM = dict.fromkeys((*_FINISHED, "best_validation", "test"), object)


class RunError(ValueError):
    """A run folder cannot be used for the requested purpose."""


@dataclass(frozen=True)
class RunFolder:
    """The files of a run.

    Args:
        path: The folder.
    """

    path: Path

    @classmethod
    def create(cls, path: str | Path) -> RunFolder:
        """Creates a run folder. Existing files are never overwritten."""
        path = Path(path)
        cls.check_new(path)
        path.mkdir(parents=True, exist_ok=True)
        return cls(path)

    @staticmethod
    def check_new(path: str | Path) -> None:
        """Raises an error if a new run cannot be written to ``path``. Leaves no files behind."""
        path = Path(path)
        check_path(path)
        if path.is_dir() and any(_is_content(entry.name) for entry in path.iterdir()):
            if (path / CONFIG).is_file():
                raise RunError(
                    f"{path}: already contains a run; resume it with  eigenformer train "
                    f"--resume {path}  or choose another folder with --out"
                )
            raise RunError(f"{path}: not empty; choose another folder with --out")
        new = [folder for folder in (path, *path.parents) if not folder.exists()]
        try:
            path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                pass
            for folder in new:
                folder.rmdir()
        except OSError as error:
            raise RunError(f"{path}: cannot be written to ({error.strerror})") from None

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """Opens an existing run folder."""
        path = Path(path)
        check_path(path)
        if not (path / CONFIG).is_file():
            check_single(path)
            raise RunError(f"{path}: not a run folder ({CONFIG} is missing)")
        return cls(path)

    @property
    def checkpoint(self) -> Path:
        return self.path / CHECKPOINT

    def check_resumable(self) -> None:
        """Raises an error if a finished run has no checkpoint: resuming would train it again."""
        if not self.checkpoint.exists() and self.read_summary().get("state") == "finished":
            raise RunError(
                f"{self.path}: the run is finished, and its {CHECKPOINT} was not kept; continue "
                f"training from its model with  --from {self.path}"
            )

    def write_config(self, config: RunConfig) -> None:
        text = yaml.safe_dump(config.to_dict(), sort_keys=False, allow_unicode=True)
        write_atomic(self.path / CONFIG, text.encode())

    def read_config(self) -> RunConfig:
        file = self.path / CONFIG
        try:
            return RunConfig.from_dict(read_yaml(file))
        except ConfigError as error:
            raise RunError(f"{file}: {error}") from None

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        text = json.dumps(_finite(summary), indent=1, ensure_ascii=False, allow_nan=False)
        write_atomic(self.path / SUMMARY, f"{text}\n".encode())

    def read_summary(self) -> dict[str, Any]:
        """Reads the summary; empty if none has been written yet."""
        try:
            content = parse_json((self.path / SUMMARY).read_text("utf-8"))
            check_form(content, _SUMMARY_FORM)
            if content.get("state") == "finished":
                check_form(content, _FINISHED_FORM)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise RunError(f"{self.path / SUMMARY}: damaged ({error})") from None
        return content

    def write_metrics(self, rows: Sequence[Mapping[str, float]]) -> None:
        """Writes the metrics of all epochs so far, with all digits: equal runs give equal files."""
        stream = io.StringIO()
        writer = csv.DictWriter(stream, list(rows[0]) if rows else ["epoch"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomic(self.path / METRICS, stream.getvalue().encode())

    def read_metrics(self) -> list[dict[str, float]]:
        file = self.path / METRICS
        if not file.is_file():
            return []
        try:
            with file.open(newline="", encoding="utf-8") as stream:
                rows = list(csv.DictReader(stream))
            return list(map(_metrics_row, rows))
        except (OSError, TypeError, ValueError, csv.Error) as error:
            raise RunError(f"{file}: damaged ({error})") from None

    def check_checkpoint(self) -> None:
        """Raises an error if the checkpoint is damaged. Reads every byte of it."""
        try:
            with zipfile.ZipFile(self.checkpoint) as archive:
                broken = archive.testzip()
        except DAMAGED as error:
            broken = str(error)
        if broken is not None:
            raise RunError(
                f"{self.checkpoint}: damaged ({broken}), so the run cannot be resumed; the best "
                f"weights so far are not affected. Remove {CHECKPOINT} to start again from the "
                f"first epoch with the same settings"
            )


def read_yaml(file: Path) -> dict[str, Any]:
    """Reads settings from a YAML file as plain data."""
    try:
        content = parse_yaml(file.read_text("utf-8"))
    except FileNotFoundError:
        raise RunError(f"{file}: there is no such file") from None
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise RunError(f"{file}{line}: cannot be read as YAML ({error.problem})") from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise RunError(f"{file}: cannot be read as YAML ({error})") from None
    if not isinstance(content, dict):
        raise RunError(f"{file}: contains no settings")
    return upgrade_run(content)


def _is_content(name: str) -> bool:
    """Whether a file belongs to a run, and was not left by one that was killed before it began."""
    return name not in (LOCK, HOLDER) and not is_temporary(name)


def _metrics_row(row: Mapping[str, str]) -> dict[str, float]:
    if "epoch" not in row:
        raise ValueError("a row has no epoch")
    epoch = int(row["epoch"])
    if not 0 <= epoch < _MOST_EPOCHS:
        raise ValueError(f"epoch {epoch}")
    values = {name: float(value) for name, value in row.items() if name != "epoch"}
    # Such numbers are as good as infinite, and differences of them cannot be drawn.
    values = {k: v if abs(v) < _HUGE else math.copysign(math.inf, v) for k, v in values.items()}
    return {"epoch": epoch, **{k: values[k] for k in row if k != "epoch"}}


def _finite(value: Any) -> Any:
    """Replaces NaN and infinite numbers by null, since JSON has neither."""
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
