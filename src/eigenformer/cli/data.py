"""``eigenformer data``: prepares graphs, lists them, and describes one set of graphs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigenformer.cli.settings import add_limits, add_reading, workspace_of
from eigenformer.config import ReadOptions, Settings, SplitOptions
from eigenformer.config.settings import setting_types
from eigenformer.reporting import print_columns

if TYPE_CHECKING:
    from eigenformer.data.archive import GraphArchive
    from eigenformer.data.listing import Entry

_COLUMNS = ("name", "graphs", "nodes", "edges", "task", "archive", "spectra", "where")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds three actions that share the cache folder."""
    folders = argparse.ArgumentParser(add_help=False)
    folders.add_argument(
        "--cache-dir", type=Path, help="folder of prepared graphs (or EIGENFORMER_CACHE_DIR)"
    )
    add_limits(folders)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    text = "fetch or generate graphs, build an archive, compute spectra; skips finished steps"
    prepare = actions.add_parser("prepare", parents=[folders], help=text, description=text)
    prepare.add_argument("name", help="a benchmark, or a path to your own graphs")
    prepare.add_argument(
        "--raw-dir", type=Path, help="folder of the benchmarks' raw files (or EIGENFORMER_RAW_DIR)"
    )
    prepare.add_argument(
        "--num-frequencies", type=int, metavar="K",
        help="keep the K lowest frequencies (default: all)",
    )  # fmt: skip
    prepare.add_argument("--no-spectra", action="store_true", help="build only the archive")
    prepare.add_argument("--workers", type=int, help="threads for spectra (default: all cores)")
    prepare.add_argument(
        "--seed", type=int, default=0, help="random seed for generated graphs or a split"
    )
    generated = prepare.add_argument_group("pattern and cluster")
    generated.add_argument("--size", type=int, help="number of graphs (default: the benchmark's)")
    generated.add_argument(
        "--official", action="store_true", help="use the published graphs instead"
    )
    own = prepare.add_argument_group("your own graphs")
    own.add_argument(
        "--name", dest="own_name", metavar="NAME", help="name in the cache (default: the file name)"
    )
    add_reading(own)

    text = "list prepared graphs with their folder, size and statistics"
    actions.add_parser("list", parents=[folders], help=text, description=text)

    text = "describe one set of graphs and verify all checksums"
    info = actions.add_parser("info", parents=[folders], help=text, description=text)
    info.add_argument("name", help="a name in the cache, or a path")


def run(arguments: argparse.Namespace) -> None:
    """Runs one of the three actions."""
    {"prepare": _prepare, "list": _list, "info": _info}[arguments.action](arguments)


def _prepare(arguments: argparse.Namespace) -> None:
    from eigenformer.data.benchmarks import BENCHMARKS, benchmark
    from eigenformer.data.preparation import prepare, prepare_own

    common = {
        "num_frequencies": arguments.num_frequencies,
        "with_spectra": not arguments.no_spectra,
    }
    if arguments.no_spectra and (arguments.num_frequencies, arguments.workers) != (None, None):
        raise ValueError("--num-frequencies, --workers: cannot be combined with --no-spectra")
    reading, splitting = (_given(arguments, cls) for cls in (ReadOptions, SplitOptions))
    own = {**reading, **splitting}
    if arguments.own_name is not None:
        own["name"] = arguments.own_name
    name, workspace = arguments.name, workspace_of(arguments)
    if name in BENCHMARKS or (not Path(name).exists() and "/" not in name and "." not in name):
        benchmark(name)
        if own:
            raise ValueError(f"{', '.join(own)}: for your own graphs; '{name}' is a benchmark")
        prepared = prepare(
            name,
            workspace,
            size=arguments.size,
            seed=arguments.seed,
            official=arguments.official,
            **common,
        )
    else:
        if arguments.size is not None or arguments.official:
            raise ValueError("--size, --official: for pattern and cluster only")
        if arguments.raw_dir is not None:
            raise ValueError(f"--raw-dir: for benchmarks; '{name}' is not one")
        options = ReadOptions.from_dict(reading)
        split = SplitOptions.from_dict({**splitting, "split_seed": arguments.seed})
        prepared = prepare_own(name, options, arguments.own_name, workspace, split=split, **common)
    _print_archive(prepared.archive)
    if prepared.spectra is not None:
        print(f"spectra     {prepared.spectra.path}")
    if not any(prepared.archive.statistics.splits):
        print("no split    --split-by random creates one, --split-column reads one from the data;")
        print("            otherwise training makes its own (train --split-by)")


def _given(arguments: argparse.Namespace, cls: type[Settings]) -> dict[str, Any]:
    """Returns the settings of one class that were given."""
    given = {name: getattr(arguments, name, None) for name in setting_types(cls)}
    return {name: value for name, value in given.items() if value is not None}


def _list(arguments: argparse.Namespace) -> None:
    from eigenformer.data.listing import list_entries

    entries = list_entries(workspace_of(arguments))
    print_columns([_COLUMNS, *map(_row, entries)], right=(1, 2, 3, 5, 6))


def _row(entry: Entry) -> tuple[str, ...]:
    from eigenformer.data.store import folder_bytes

    counts, target = entry.statistics, entry.target
    if entry.problem:
        return (entry.name, *[""] * 6, entry.problem.splitlines()[0])
    if counts is None:
        return (entry.name, *["-"] * 6, "not prepared")
    return (
        entry.name,
        str(counts.graphs),
        f"{counts.mean_nodes:.1f}",
        f"{counts.mean_edges:.1f}",
        "none" if target is None else f"{target.level} {target.kind}",
        _size(entry.archive_bytes),
        _size(sum(map(folder_bytes, entry.spectra))) if entry.spectra else "-",
        str(entry.path),
    )


def _info(arguments: argparse.Namespace) -> None:
    from eigenformer.data.archive import GraphArchive
    from eigenformer.data.listing import find_archive, spectra_folders
    from eigenformer.data.preparation import changed_inputs
    from eigenformer.data.spectra import find_spectra, verify_spectra
    from eigenformer.data.store import folder_bytes

    workspace = workspace_of(arguments)
    path = find_archive(arguments.name, workspace)
    archive = GraphArchive.open(path, verify=True)
    _print_archive(archive)
    spectra = find_spectra(archive, spectra_folders(path, workspace))
    for cache, k in spectra.items():
        what = "all frequencies" if k is None else f"the {k} lowest frequencies"
        print(f"spectra     {what}, {_size(folder_bytes(cache))}, {cache}")
    if not spectra:
        print("spectra     not computed")
    for cache in spectra:
        verify_spectra(cache)
    print("checksums   all files of the archive and its spectra are unchanged")
    changed = changed_inputs(archive, workspace)
    if changed is not None:
        names = ", ".join(map(str, changed))
        advice = f"changed since the archive was built ({names}): delete its folder to rebuild it"
        print(f"raw files   {advice if changed else 'unchanged since the archive was built'}")


def _print_archive(archive: GraphArchive) -> None:
    from eigenformer.data.benchmarks import BENCHMARKS

    counts, target = archive.statistics, archive.target
    print(f"archive     {archive.path}")
    splits = f"train, val, test: {', '.join(map(str, counts.splits))}"
    print(f"graphs      {counts.graphs} ({splits if any(counts.splits) else 'not split'})")
    print(f"nodes       {counts.nodes} (mean {counts.mean_nodes:.2f}, max {counts.max_nodes})")
    kind = "directed" if counts.directed else "both directions of undirected edges"
    print(f"edges       {counts.edges} (mean {counts.mean_edges:.2f}, {kind})")
    what = "none (no targets)"
    if target is not None:
        what = f"{target.level} {target.kind}: {', '.join(target.names) or '-'}"
    print(f"task        {what}")
    for field, values in archive.fields.items():
        width = " × ".join(map(str, values.values.shape[1:])) or "1"
        kind = "text" if values.is_text else values.dtype.name
        columns = ", ".join(archive.meta.get("columns", {}).get(field, ()))
        named = f": {columns}" if columns else ""
        print(f"{field:<11} {kind}, {width} per {values.level}{named}")
    benchmark = BENCHMARKS.get(archive.meta.get("origin", {}).get("benchmark", ""))
    if benchmark is not None and benchmark.graphs == counts.graphs:
        means = f"{benchmark.mean_nodes} nodes and {benchmark.mean_edges} edges"
        once = ", each counted once" if benchmark.count_once else ""
        print(f"paper       {benchmark.graphs} graphs, on average {means}{once}")
        print(f"            {'; '.join(benchmark.differences(counts)) or 'agrees'}")


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
