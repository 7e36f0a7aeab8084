"""``eigenformer ablate``: repeats a training with one thing changed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from eigenformer.cli.settings import add_folders, add_training, settings_of, workspace_of

if TYPE_CHECKING:
    from eigenformer.experiments.ablation import Ablation, Variant
    from eigenformer.plots import Picture


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: what to change, and in which model."""
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    common.add_argument("--out", type=Path, help="output folder (default: runs/ablation-WHAT-NAME)")
    add_training(common)
    add_folders(common)
    one = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    one.add_argument(
        "name", metavar="PRESET_OR_DATASET", help="a preset or a dataset, for example zinc-feat"
    )
    one.add_argument("--seeds", type=int, nargs="+", default=[0], metavar="SEED")
    what = parser.add_subparsers(dest="what", metavar="WHAT", required=True)

    def add(name: str, text: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        return what.add_parser(
            name, parents=[*parents, common], help=text, description=text, allow_abbrev=False
        )

    text = "train with a fraction of the frequencies: the paper's Table 3"
    frequencies = add("frequencies", text, one)
    frequencies.add_argument(
        "--fractions", dest="shares", type=float, nargs="+", default=[1.0, 0.8, 0.6, 0.4, 0.2]
    )
    frequencies.add_argument(
        "--samples",
        type=int,
        default=4,
        help="random samples of the frequencies per test (default: 4)",
    )
    text = "train with the paper's degree scaler, with one per layer, and without"
    add("degree-scaler", text, one)
    text = "switch single ingredients on over the paper's preset, and off from the stronger one"
    _add_parts(add("parts", text))


def _add_parts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names", nargs="+", metavar="PRESET_OR_DATASET", help="presets or datasets, such as zinc"
    )
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[0, 1], metavar="SEED", help="default: 0 1"
    )
    parser.add_argument(
        "--ingredients", nargs="+", default=[], metavar="NAME", help="what to switch (default: all)"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        help="processor minutes per run (default: what --epochs take with the paper's preset)",
    )
    parser.add_argument(
        "--equal",
        choices=("time", "epochs"),
        default="time",
        help="whether runs have equal processor time (default) or equal epochs",
    )


def run(arguments: argparse.Namespace) -> None:
    """Trains the missing runs, prints the table and writes it next to the runs."""
    ablations = {"frequencies": _frequencies, "degree-scaler": _degree_scaler, "parts": _parts}
    ablations[arguments.what](arguments)


def _frequencies(arguments: argparse.Namespace) -> None:
    from eigenformer.experiments.ablation import frequency_variants
    from eigenformer.experiments.ablation_tables import frequency_curves, frequency_table, records

    ablation, out = _train(arguments, frequency_variants(arguments.shares), arguments.samples)
    _write(frequency_table(ablation), records(ablation), out)
    curves = frequency_curves(ablation)
    if not curves:
        print("no figure: it shows changes relative to fraction 1.0, which was not requested")
        return

    def draw() -> Picture:
        from eigenformer.plots.ablation import draw_frequencies

        about = f"{ablation.name}, {ablation.schedule}"
        return draw_frequencies(curves, _metric_name(ablation.metric), about)

    _draw(draw, out)


def _degree_scaler(arguments: argparse.Namespace) -> None:
    from eigenformer.experiments.ablation import scaler_variants
    from eigenformer.experiments.ablation_tables import records, scaler_table

    ablation, out = _train(arguments, scaler_variants())
    _write(scaler_table(ablation), records(ablation), out)


def _parts(arguments: argparse.Namespace) -> None:
    for name in arguments.names:
        out = _folder(arguments, name)
        several = arguments.out is not None and len(arguments.names) > 1
        _parts_of(name, out / Path(name).name if several else out, arguments)


def _parts_of(name: str, out: Path, arguments: argparse.Namespace) -> None:
    from eigenformer.experiments.parts import ablate_parts
    from eigenformer.experiments.parts_tables import parts_records, parts_table

    given = (name, arguments.seeds, out, settings_of(arguments), arguments.ingredients)
    how = (arguments.minutes, arguments.equal, workspace_of(arguments))
    ablation = ablate_parts(*given, *how)
    _write(parts_table(ablation), parts_records(ablation), out)

    def draw() -> Picture:
        from eigenformer.plots.ablation import draw_parts

        return draw_parts(ablation, _metric_name(ablation.metric))

    _draw(draw, out)


def _train(
    arguments: argparse.Namespace, variants: list[Variant], samples: int = 1
) -> tuple[Ablation, Path]:
    from eigenformer.experiments.ablation import ablate

    out = _folder(arguments, arguments.name)
    settings, workspace = settings_of(arguments), workspace_of(arguments)
    seeds = arguments.seeds
    return ablate(arguments.name, variants, seeds, out, settings, samples, workspace), out


def _folder(arguments: argparse.Namespace, name: str) -> Path:
    """Returns the output folder of an ablation of one model."""
    short = Path(name).name.split(".")[0]
    return arguments.out or Path("runs") / f"ablation-{arguments.what}-{short}"


def _write(table: str, records: str, out: Path) -> None:
    from eigenformer.files import write_atomic

    write_atomic(out / "table.md", table.encode())
    write_atomic(out / "results.csv", records.encode())
    print(f"\n{table}\n{out / 'table.md'}, {out / 'results.csv'}")


def _draw(draw: Callable[[], Picture], out: Path) -> None:
    """Draws and saves a figure, if drawing is installed."""
    try:
        from eigenformer.plots import save_picture

        picture = draw()
    except ImportError as error:
        print(f"no figure: {error}")
        return
    save_picture(picture, out / "figure.svg")
    print(out / "figure.svg")


def _metric_name(metric: str) -> str:
    from eigenformer.analysis.curves import metric_name

    return metric_name(metric)
