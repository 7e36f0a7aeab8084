"""The supported forms of the user's own graphs, and the reader for each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from eigenformer.config import ConfigError, ReadOptions, SplitOptions
from eigenformer.config.data import check_split_column
from eigenformer.data.archive import GraphArchive, is_archive
from eigenformer.data.errors import DataError, Problem, placed
from eigenformer.data.graph_tables import is_graph_tables, read_graph_tables
from eigenformer.data.images import is_image_folder, read_image_folder
from eigenformer.data.molecule_table import Import, read_molecule_table
from eigenformer.data.splits import split_archive
from eigenformer.data.tables import Rejected, is_table
from eigenformer.data.target_columns import archive_target
from eigenformer.files import PathError, check_path
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.reporting import Reporter

if TYPE_CHECKING:
    from torch_geometric.data import Data

Form = Literal["molecules", "tables", "graphs", "pictures", "archive"]
"""The supported forms of graphs."""

_TABLE = frozenset({"targets", "split_column", "weight_column", "task"})
# The reading options that each form uses. All forms except archives can also be split.
_USED: dict[Form, frozenset[str]] = {
    "molecules": _TABLE | {"smiles", "identifier", "featurizer", "descriptors"},
    "tables": _TABLE | {"undirected", "ignored_columns"},
    "graphs": frozenset({"task"}),
    "pictures": frozenset(),
    "archive": frozenset(),
}
_WORDS: dict[Form, str] = {
    "molecules": "a table of molecules",
    "tables": "the tables graphs, nodes and edges",
    "graphs": "PyG graphs",
    "pictures": "pictures",
    "archive": "an archive, which is used as it is",
}


def own_files(path: Path) -> list[Path]:
    """Returns the files of a table or of a folder of graphs."""
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.is_file())
    return [path]


def form_of(path: Path) -> Form:
    """Returns the form of the graphs at ``path``."""
    if not path.exists():
        raise DataError(Problem(str(path), "there is no such file or folder"))
    if is_table(path):
        return "molecules"
    if is_archive(path):
        return "archive"
    if is_graph_tables(path):
        return "tables"
    if any(path.glob("*.pt")):
        return "graphs"
    if is_image_folder(path):
        return "pictures"
    raise DataError(
        Problem(
            str(path),
            "no graphs found: expected a table of SMILES (.csv, .tsv, .parquet), or a folder with "
            "the tables graphs, nodes and edges, with .pt files of PyG Data, or with pictures",
        )
    )


def suited(options: ReadOptions, path: Path) -> ReadOptions:
    """Returns the options that apply to the graphs at ``path``; the others get their defaults."""
    used = _USED[form_of(path)]
    return ReadOptions(**{name: value for name, value in vars(options).items() if name in used})


def check_used(options: ReadOptions, split: SplitOptions, path: Path) -> None:
    """Raises an error if an option is set that does not apply to the graphs at ``path``."""
    form = form_of(path)
    for settings, default in ((options, ReadOptions()), (split, SplitOptions())):
        for name, value in vars(settings).items():
            used = form != "archive" if settings is split else name in _USED[form]
            if value != getattr(default, name) and not used:
                raise ConfigError(f"{name}: does not apply to {_WORDS[form]} ({path})")
    check_split_column(options, split)
    if split.split_by in (None, "column") and split != SplitOptions(split_by=split.split_by):
        raise ConfigError("fractions, seed: apply to a split, but none is requested (split_by)")


def read_own(
    path: str | Path,
    options: ReadOptions | None = None,
    split: SplitOptions | None = None,
    reporter: Reporter | None = None,
    limits: Limits = DEFAULT_LIMITS,
    scratch: Path | None = None,
) -> Import:
    """Reads a table of molecules, an archive, or a folder of plain tables, graphs or pictures.

    Args:
        path: The path of the graphs.
        options: How to read the graphs.
        split: How to split the graphs (default: the split in the data, if there is one).
        reporter: Prints progress.
        limits: How large the files may be.
        scratch: The folder of temporary files (default: that of the system).
    """
    path, options, split = Path(path), options or ReadOptions(), split or SplitOptions()
    form = form_of(path)
    check_used(options, split, path)
    rejected: tuple[Rejected, ...] = ()
    if form == "molecules":
        read = read_molecule_table(path, options, reporter, limits, scratch)
        archive, rejected = read.archive, read.rejected
    elif form == "archive":
        archive = GraphArchive.open(path, check=True, limits=limits)
    elif form == "tables":
        archive = read_graph_tables(path, options, limits=limits)
    elif form == "graphs":
        archive = read_data_folder(path, options.task, limits)
    else:
        archive = read_image_folder(path, reporter=reporter, limits=limits)
    with placed(path):
        limits.check_settings(archive.target)
    return Import(split_archive(archive, split), rejected)


def read_data_folder(
    path: Path, task: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> GraphArchive:
    """Reads a folder of ``.pt`` files, each with one PyG ``Data`` or a list of them.

    No code in the files is run.
    """
    names: list[str] = []
    graphs: list[Data] = []
    for file in sorted(path.glob("*.pt")):
        for name, graph in load_data_file(file, limits):
            names.append(name)
            graphs.append(graph)
    if not graphs:
        raise DataError(Problem(str(path), "no graphs in its .pt files"))
    archive = GraphArchive.from_data_list(graphs, names=names, limits=limits)
    return archive.with_target(archive_target(archive, task, path))


def load_data_file(file: Path, limits: Limits = DEFAULT_LIMITS) -> list[tuple[str, Data]]:
    """Returns the names and the graphs in a ``.pt`` file."""
    from torch_geometric.data import Data

    from eigenformer.data.plain_values import GraphFields
    from eigenformer.data.unpickle import load_graphs_from

    try:
        check_path(file)  # its name becomes that of a graph
    except PathError as error:
        raise DataError(str(error)) from None
    loaded = load_graphs_from(file, limits)
    several, found = isinstance(loaded, list | tuple), []
    for number, fields in enumerate(loaded if several else [loaded]):
        if not isinstance(fields, GraphFields):
            reason = f"holds a {type(fields).__name__}, expected PyG Data or a list of them"
            raise DataError(Problem(str(file), reason))
        graph = Data()
        for name, value in fields.items():
            graph[name] = value
        found.append((f"{file.stem}/{number}" if several else file.stem, graph))
    return found
