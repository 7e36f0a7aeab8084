"""Places that keep the files of a model: a repository on the Hugging Face hub, or a folder."""

from __future__ import annotations

import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from eigenformer.files import write_atomic

_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


class HubError(ValueError):
    """Raised if a repository cannot be read or written."""


class Repository(ABC):
    """A place with files. Names of files may have one folder: ``member/model.json``.

    Args:
        name: What the user calls it.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Returns the bytes of every file; empty if there is no repository yet."""

    @abstractmethod
    def send(self, files: Mapping[str, bytes], remove: Collection[str]) -> str:
        """Writes files and removes others. Returns where they can be found."""

    @abstractmethod
    def fetch(self, name: str) -> bytes:
        """Returns the content of a file."""


class FolderRepository(Repository):
    """A folder of this machine, or one that it can see.

    Args:
        name: Its address: ``file:///path``.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        parts = urlsplit(name)
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise HubError(f"{name}: expected an absolute path, as in file:///shared/model")
        self.path = Path(unquote(parts.path))

    def sizes(self) -> dict[str, int]:
        files = [*self.path.glob("*"), *self.path.glob("*/*")]
        found = [file for file in files if file.is_file()]
        return {file.relative_to(self.path).as_posix(): file.stat().st_size for file in found}

    def send(self, files: Mapping[str, bytes], remove: Collection[str]) -> str:
        for name in remove:
            (self.path / name).unlink()
        for name, content in files.items():
            place = self.path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(place, content)
        return str(self.path)

    def fetch(self, name: str) -> bytes:
        return (self.path / name).read_bytes()


class HubRepository(Repository):
    """A model repository on the Hugging Face hub, or on a server with the same interface.

    The token is the one that ``hf auth login`` or ``HF_TOKEN`` gave to huggingface_hub; it is not
    seen here.

    Args:
        name: ``OWNER/NAME``.
        revision: A branch, tag or commit to read (default: the newest).
        public: Whether everybody can read a repository that is made here.
        endpoint: The server (default: huggingface.co, or ``HF_ENDPOINT``).
    """

    def __init__(
        self,
        name: str,
        revision: str | None = None,
        public: bool = False,
        endpoint: str | None = None,
    ) -> None:
        super().__init__(name)
        if not _NAME.fullmatch(name):
            raise HubError(f"{name}: expected OWNER/NAME, or the address file:///… of a folder")
        try:
            import huggingface_hub
        except ImportError:
            raise ImportError(
                "the hub needs huggingface_hub: install it with  pip install 'eigenformer[hub]'"
            ) from None
        self._hub: Any = huggingface_hub
        self._api: Any = huggingface_hub.HfApi(endpoint=endpoint, library_name="eigenformer")
        self._revision, self._public = revision, public

    def sizes(self) -> dict[str, int]:
        with self._in_one_sentence():
            try:
                info = self._api.model_info(self.name, revision=self._revision, files_metadata=True)
            except self._hub.errors.RepositoryNotFoundError:
                return {}
            # From here on, the files of this very commit.
            self._revision = info.sha
            return {file.rfilename: int(file.size or 0) for file in info.siblings or []}

    def send(self, files: Mapping[str, bytes], remove: Collection[str]) -> str:
        add, delete = self._hub.CommitOperationAdd, self._hub.CommitOperationDelete
        work = [delete(path_in_repo=name) for name in remove]
        work += [add(path_in_repo=name, path_or_fileobj=data) for name, data in files.items()]
        with self._in_one_sentence():
            self._api.create_repo(self.name, private=not self._public, exist_ok=True)
            made = self._api.create_commit(self.name, work, commit_message="Model by Eigenformer")
            return str(made.commit_url)

    def fetch(self, name: str) -> bytes:
        # Not in the cache of the hub: nothing is left behind if the model is refused.
        folder = tempfile.mkdtemp(prefix="eigenformer-pull-")
        try:
            with self._in_one_sentence():
                given = {"revision": self._revision, "local_dir": folder}
                return Path(self._api.hf_hub_download(self.name, name, **given)).read_bytes()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _in_one_sentence(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # of the library, or of the one it uses for requests
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            reason = lines[0] if lines else type(error).__name__
            raise HubError(f"{self.name}: the hub cannot be used: {reason}") from error


def repository_of(
    name: str,
    revision: str | None = None,
    public: bool = False,
    endpoint: str | None = None,
) -> Repository:
    """Returns the repository with a name. The arguments are those of :class:`HubRepository`."""
    if not name.startswith("file:"):
        return HubRepository(name, revision, public, endpoint)
    if revision is not None or public:
        raise HubError(f"{name}: a folder has no revisions and is as public as its files are")
    return FolderRepository(name)
