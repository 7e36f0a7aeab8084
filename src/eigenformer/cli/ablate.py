"""``eigenformer ablate``: repeats a training with one thing changed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from eigenformer.cli.settings import add_folders, add_training, settings_of, workspace_of

if TYPE_CHECKING:
    from eigenformer.experiments.ablation import Ablation, Variant


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: what to change, and in which model."""
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    common.add_argument(
        "name", metavar="PRESET_OR_DATASET", help="a preset or a dataset, for example zinc-feat"
    )
    common.add_argument("--seeds", type=int, nargs="+", default=[0], metavar="SEED")
    common.add_argument("--out", type=Path, help="output folder (default: runs/ablation-WHAT-NAME)")
    add_training(common)
    add_folders(common)
    what = parser.add_subparsers(dest="what", metavar="WHAT", required=True)

    text = "train with a fraction of the frequencies: the paper's Table 3"
    frequencies = what.add_parser(
        "frequencies", parents=[common], help=text, description=text, allow_abbrev=False
    )
    frequencies.add_argument(
        "--fractions", dest="shares", type=float, nargs="+", default=[1.0, 0.8, 0.6, 0.4, 0.2]
    )
    frequencies.add_argument(
        "--draws",
        type=int,
        default=4,
        help="random samples of the frequencies per test (default: 4)",
    )

    text = "train with the paper's degree scaler, with one per layer, and without"
    what.add_parser(
        "degree-scaler", parents=[common], help=text, description=text, allow_abbrev=False
    )


def run(arguments: argparse.Namespace) -> None:
    """Trains the missing runs, prints the table and writes it next to the runs."""
    from eigenformer.experiments.ablation import frequency_variants, scaler_variants
    from eigenformer.experiments.ablation_tables import frequency_table, scaler_table

    if arguments.what == "frequencies":
        ablation, out = _train(arguments, frequency_variants(arguments.shares), arguments.draws)
        _write(frequency_table(ablation), ablation, out)
        _draw(ablation, out)
    else:
        ablation, out = _train(arguments, scaler_variants())
        _write(scaler_table(ablation), ablation, out)


def _train(
    arguments: argparse.Namespace, variants: list[Variant], draws: int = 1
) -> tuple[Ablation, Path]:
    from eigenformer.experiments.ablation import ablate

    name = Path(arguments.name).name.split(".")[0]
    out = arguments.out or Path("runs") / f"ablation-{arguments.what}-{name}"
    settings = settings_of(arguments)
    workspace = workspace_of(arguments)
    seeds = arguments.seeds
    return ablate(arguments.name, variants, seeds, out, settings, draws, workspace), out


def _write(table: str, ablation: Ablation, out: Path) -> None:
    from eigenformer.experiments.ablation_tables import records
    from eigenformer.files import write_atomic

    write_atomic(out / "table.md", table.encode())
    write_atomic(out / "results.csv", records(ablation).encode())
    print(f"\n{table}\n{out / 'table.md'}, {out / 'results.csv'}")


def _draw(ablation: Ablation, out: Path) -> None:
    from eigenformer.analysis.curves import metric_name
    from eigenformer.experiments.ablation_tables import frequency_curves

    curves = frequency_curves(ablation)
    if not curves:
        print("no figure: it shows changes relative to fraction 1.0, which was not requested")
        return
    try:
        from eigenformer.plots import save_picture
        from eigenformer.plots.ablation import draw_frequencies
    except ImportError as error:
        print(f"no figure: {error}")
        return
    about = f"{ablation.name}, {ablation.schedule}"
    save_picture(draw_frequencies(curves, metric_name(ablation.metric), about), out / "figure.svg")
    print(out / "figure.svg")
