"""Turns command-line options and settings files into plain settings."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from eigenformer.cli.config_file import fitted, read_config_file
from eigenformer.config import ConfigError, RunConfig, Settings, merge, parse_yaml
from eigenformer.config.settings import alternatives, setting_types
from eigenformer.limits import Limits
from eigenformer.options import Backend
from eigenformer.reporting import Reporter

if TYPE_CHECKING:
    from eigenformer.data.workspace import Workspace
    from eigenformer.pools import Pool

# Each option and where its value goes in the settings of a run.
_PLACES = {
    "preset": "preset",
    "epochs": "training.epochs",
    "batch_size": "training.batch_size",
    "lr": "training.learning_rate",
    "loss": "training.loss",
    "class_balance": "training.class_balance",
    "seed": "seed",
    "threads": "threads",
    "device": "device",
    "devices": "devices",
    "machines": "machines",
    "precision": "precision",
    "backend": "backend",
    "patience": "patience",
    "start": "start",
}


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Adds the option that raises or lowers limits on the size of inputs."""
    parser.add_argument(
        "--limits", nargs="+", action="extend", default=[], metavar="NAME=NUMBER",
        help="raise or lower limits, for example atoms=20k (docs/security.md lists them)",
    )  # fmt: skip


def limits_of(arguments: argparse.Namespace) -> Limits:
    """Returns the limits of a command."""
    return Limits.parse(arguments.limits)


def set_threads(arguments: argparse.Namespace) -> None:
    """Sets the number of PyTorch threads, if it is given."""
    import torch

    if arguments.threads is not None:
        limits_of(arguments).check("threads", arguments.threads, "--threads")
        torch.set_num_threads(arguments.threads)


def add_folders(parser: argparse.ArgumentParser) -> None:
    """Adds the folders that data is read from and kept in, and the limits on its size."""
    add_limits(parser)
    group = parser.add_argument_group("folders")
    group.add_argument("--raw-dir", type=Path, help="folder of raw files (or EIGENFORMER_RAW_DIR)")
    group.add_argument(
        "--cache-dir", type=Path, help="folder of prepared graphs (or EIGENFORMER_CACHE_DIR)"
    )


def add_device(parser: argparse._ActionsContainer, default: str | None = "auto") -> None:
    """Adds the device to compute on. None leaves the choice to the settings."""
    shown = default or "auto"
    parser.add_argument(
        "--device",
        default=default,
        help=f"device to compute on: auto, cpu, cuda, cuda:N or mps (default: {shown})",
    )


def workspace_of(arguments: argparse.Namespace, reporter: Reporter | None = None) -> Workspace:
    """Returns the workspace of a command. It reports to the terminal by default."""
    from eigenformer.data.workspace import Workspace
    from eigenformer.reporting import TerminalReporter

    raw_dir, cache_dir, workers = (
        getattr(arguments, name, None) for name in ("raw_dir", "cache_dir", "workers")
    )
    reporter, limits = reporter or TerminalReporter(), limits_of(arguments)
    return Workspace.resolve(raw_dir, cache_dir, workers, reporter, limits=limits)


def add_ray(parser: argparse._ActionsContainer) -> None:
    """Adds the Ray cluster that shares the work."""
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="share the work with a Ray cluster: HOST:PORT, or auto for the one of this machine",
    )


def add_side_by_side(parser: argparse._ActionsContainer) -> None:
    """Adds how many runs are trained at the same time, and where."""
    parser.add_argument(
        "--side-by-side",
        type=positive,
        metavar="N",
        help="runs to train at the same time (default: one per core)",
    )
    add_ray(parser)


def pool_of(arguments: argparse.Namespace, runs: int) -> Pool:
    """Returns where a number of runs is trained."""
    from eigenformer.pools import Pool

    pool = Pool.resolve(arguments.side_by_side, arguments.ray)
    return replace(pool, size=min(runs, pool.size))


def positive(text: str) -> int:
    """Parses a whole number of at least 1, such as a number of threads."""
    number = int(text) if text.lstrip("+-").isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got '{text}'")
    return number


def add_training(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that all training commands share."""
    text = "Every setting is also an option: --model.layers 4, --training.weight_decay 0."
    group = parser.add_argument_group("training (defaults: the preset's)", text)
    group.add_argument(
        "--epochs", type=int, help="number of epochs; the warm-up scales in proportion"
    )
    group.add_argument("--batch-size", type=int, help="graphs per step, summed over all processes")
    group.add_argument("--lr", type=float, help="peak learning rate")
    group.add_argument("--loss", help="loss of numbers: l1, l2 or huber")
    group.add_argument(
        "--class-balance",
        action="store_true",
        default=None,
        help="larger weights for rare classes and labels in the loss",
    )
    group.add_argument(
        "--limit", type=int, metavar="N", help="use only N graphs per split, for a quick look"
    )
    group.add_argument(
        "--patience", type=int, metavar="N", help="stop after N epochs without improvement"
    )
    group.add_argument("--threads", type=int, help="PyTorch threads per process")
    add_device(group, default=None)
    group.add_argument("--devices", type=int, help="processes or GPUs per machine")
    group.add_argument("--machines", type=int, help="number of machines")
    group.add_argument("--precision", help="numerical precision: 32, 64, bf16 or 16")
    group.add_argument(
        "--backend", help=f"how attention is computed: {', '.join(get_args(Backend))}"
    )
    for name, annotation in _dotted():
        # No default, because None is a valid value.
        hidden: dict[str, Any] = {"help": argparse.SUPPRESS, "default": argparse.SUPPRESS}
        group.add_argument(f"--{name}", **hidden, **_form(annotation))


def add_own_data(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that say how to read, split and judge the user's own data."""
    own = parser.add_argument_group("your own data")
    add_reading(own)
    own.add_argument(
        "--metric", help="metric that selects the best epoch (default: the usual one of the task)"
    )
    own.add_argument(
        "--max-bad-rows",
        type=share,
        metavar="SHARE",
        help="share of unreadable rows to tolerate (default: 5%%)",
    )


def add_reading(own: argparse._ArgumentGroup) -> None:
    """Adds the arguments that say how to read and split the user's own data."""
    own.add_argument("--smiles", metavar="COLUMN", help="column with SMILES (default: smiles)")
    own.add_argument(
        "--target", "--targets", dest="targets", nargs="+", action="extend", metavar="COLUMN",
        help="columns to predict",
    )  # fmt: skip
    own.add_argument(
        "--descriptors", nargs="+", action="extend", metavar="NAME",
        help="numbers beside the graph: rdkit2d, morgan, or columns of the table",
    )  # fmt: skip
    own.add_argument("--task", help="kind of target (default: inferred from the values)")
    own.add_argument(
        "--id-column", dest="identifier", metavar="COLUMN", help="column with unique names"
    )
    own.add_argument("--featurizer", help="features of molecules: molecule (default), ogb or zinc")
    own.add_argument("--split-by", help="how to split: random, stratified, scaffold or column")
    own.add_argument(
        "--split-column", metavar="COLUMN", help="column with train, val or test for each row"
    )
    own.add_argument(
        "--weight-column", metavar="COLUMN", help="column with the weight of each row in training"
    )
    own.add_argument(
        "--fractions",
        nargs=3,
        type=float,
        help="shares of train, val and test (default: 0.8 0.1 0.1)",
    )
    own.add_argument(
        "--undirected", action="store_true", default=None, help="treat each edge as undirected"
    )
    own.add_argument(
        "--ignore", dest="ignored_columns", nargs="+", metavar="COLUMN",
        help="columns of nodes and edges that are not features",
    )  # fmt: skip


def share(text: str) -> float:
    """Parses a share: a number, or a percentage with its sign."""
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


def settings_of(arguments: argparse.Namespace, reporter: Reporter | None = None) -> dict[str, Any]:
    """Returns the given settings as plain data. Options override the settings file.

    The reporter says which settings of the file are not used.
    """
    given = vars(arguments)
    changes: dict[str, Any] = {}
    names = _inside(setting_types(RunConfig)["data"])
    data = {name: f"data.{name}" for name in names if name != "kind"}
    for option, place in {**_PLACES, **data}.items():
        if given.get(option) is not None:
            _put(changes, place, given[option])
    for name, _ in _dotted():
        if name in given:
            _put(changes, name, given[name])
    if given.get("config") is None:
        return changes
    path = given["config"]
    return merge(fitted(read_config_file(path), changes, path, reporter or Reporter()), changes)


def _dotted() -> Iterator[tuple[str, Any]]:
    """Yields the dotted name and the type of every setting in a section."""
    sections = setting_types(RunConfig)
    for section, settings in sections.items():
        for name, annotation in _inside(settings).items():
            yield f"{section}.{name}", annotation
            for part, kind in _inside(annotation).items():
                yield f"{section}.{name}.{part}", kind


def _inside(annotation: Any) -> dict[str, Any]:
    """Returns the settings of a section, of all its kinds, by name; empty for a plain value."""
    inside: dict[str, Any] = {}
    for member in alternatives(annotation):
        if isinstance(member, type) and issubclass(member, Settings):
            inside |= setting_types(member)
    return {**inside, "kind": str} if "kind" in inside else inside


def _form(annotation: Any) -> dict[str, Any]:
    """Returns the argparse keywords that read a setting from the command line."""
    kind = alternatives(annotation)[0]
    optional = type(None) in get_args(annotation)
    if get_origin(kind) is tuple:
        return {"nargs": "+", "action": _Several, "type": _reader(get_args(kind)[0], False)}
    if kind is bool:
        return {"nargs": "?", "const": True, "type": _reader(kind, optional)}
    return {"type": _reader(kind, optional)}


def _reader(kind: Any, optional: bool) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        import yaml

        if optional and text.lower() in ("null", "none", "~"):
            return None
        if kind is str or get_origin(kind) is Literal:
            return text
        try:
            return parse_yaml(text)
        except yaml.YAMLError:
            raise argparse.ArgumentTypeError(f"'{text}' is not a valid value") from None

    return read


class _Several(argparse.Action):
    """Reads ``0.9 0.99`` and ``[0.9, 0.99]`` as the same list."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        import yaml

        if len(values) == 1 and isinstance(values[0], str) and values[0].startswith("["):
            values = [yaml.load(values[0], yaml.BaseLoader)]  # every item stays a string
        listed = len(values) == 1 and isinstance(values[0], list)
        setattr(namespace, self.dest, values[0] if listed else values)


def _put(settings: dict[str, Any], place: str, value: Any) -> None:
    *sections, name = place.split(".")
    for section in sections:
        inner = settings.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"--{place}: '{section}' is already set as a whole")
        settings = inner
    settings[name] = value
