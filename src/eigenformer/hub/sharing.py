"""Shares a model folder, and takes one over: safetensors, JSON and a README, nothing else."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from eigenformer.files import check_path
from eigenformer.hub.model_page import model_page
from eigenformer.hub.repositories import HubError, repository_of
from eigenformer.limits import DEFAULT_LIMITS, LimitError, Limits
from eigenformer.model_folder import CARD, ENSEMBLE, WEIGHTS, read_ensemble
from eigenformer.trained_model import TrainedModel
from eigenformer.training.novelty import REFERENCE

README = "README.md"
_OF_A_MODEL = (WEIGHTS, CARD, REFERENCE)
_AT_THE_TOP = (*_OF_A_MODEL, ENSEMBLE, README)
"""The only names of files that are sent or fetched, beside those in the folders of members."""


def push(
    folder: str | Path,
    repository: str,
    public: bool = False,
    license: str | None = None,
    reference: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    endpoint: str | None = None,
) -> tuple[str, list[str]]:
    """Writes a model to a repository, with a README about it.

    Returns where it can be found, and the names of the files. Other files of the repository are
    left alone, except files of a model that was there before.

    Args:
        folder: A run folder, any other folder with a model, or an ensemble.
        repository: ``OWNER/NAME`` on the hub, or ``file:///path``.
        public: Whether everybody can read a repository that is made here.
        license: The licence of the weights, as the hub calls it (default: the README says nothing).
        reference: Whether to include what ``predict --novelty`` needs: up to 500 training graphs,
            as the head of the model sees them.
        limits: How large the model may be.
        endpoint: The server (default: huggingface.co, or ``HF_ENDPOINT``).
    """
    folder = Path(folder)
    place = repository_of(repository, public=public, endpoint=endpoint)
    trained = TrainedModel.open(folder, limits=limits)  # a model that cannot be opened is not sent
    name = repository.rstrip("/").rpartition("/")[2]
    page = model_page(folder, trained, name, repository, license)
    files = {README: page.encode()}
    for file in _names(folder):
        if (folder / file).is_file() and (reference or not file.endswith(REFERENCE)):
            files[file] = (folder / file).read_bytes()
    before = place.sizes().keys() & set(_AT_THE_TOP)
    return place.send(files, sorted(before - files.keys())), sorted(files)


def pull(
    repository: str,
    folder: str | Path,
    revision: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    endpoint: str | None = None,
) -> TrainedModel:
    """Copies a model from a repository to a new folder, and opens it.

    A model that cannot be opened leaves no files behind.

    Args:
        repository: ``OWNER/NAME`` on the hub, or ``file:///path``.
        folder: The folder to make.
        revision: A branch, tag or commit of the hub (default: the newest).
        limits: How large the files and the model may be.
        endpoint: The server (default: huggingface.co, or ``HF_ENDPOINT``).
    """
    folder = Path(folder)
    check_path(folder)
    if folder.exists():
        raise HubError(f"{folder}: already exists; give the name of a new folder")
    place = repository_of(repository, revision, endpoint=endpoint)
    sizes = place.sizes()
    if not sizes.keys() & {CARD, ENSEMBLE}:
        raise HubError(f"{repository}: no model here, or you may not read it ({CARD} is missing)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}~", dir=folder.parent))

    def fetch(names: tuple[str, ...]) -> None:
        for name in names:
            if name not in sizes:
                continue
            try:
                limits.check("file_bytes", sizes[name], "bytes")
            except LimitError as error:
                raise HubError(f"{repository}: {name}: {error}") from None
            (new / name).parent.mkdir(exist_ok=True)
            (new / name).write_bytes(place.fetch(name))

    try:
        fetch(_AT_THE_TOP)
        fetch(tuple(name for name in _names(new) if "/" in name))
        TrainedModel.open(new, limits=limits)
        os.chmod(new, 0o755)
        os.rename(new, folder)
    except ValueError as error:  # named by the folder that the user knows
        raise HubError(str(error).replace(str(new), repository)) from None
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return TrainedModel.open(folder, limits=limits)


def _names(folder: Path) -> list[str]:
    """Returns the names of the files that a model in a folder may have."""
    together = read_ensemble(folder)
    if together is None:
        return list(_OF_A_MODEL)
    # The card has checked that members are names of folders inside this one.
    return [ENSEMBLE, *(f"{member}/{name}" for member in together.members for name in _OF_A_MODEL)]
