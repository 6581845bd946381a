"""Files elsewhere: object storage through pyarrow's file systems, asked the few things that a path here is asked.

Credentials are pyarrow's business: the environment, or the URI. A URI is kept to open the store with, and sent along
where the path is pickled, but what is shown is the path in the store alone.
"""

from __future__ import annotations

import os
import re
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import unquote

from multireplay.errors import InputError

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")
_RETRY = "retry_limit_seconds=30"
"""Google's store asks for credentials for 15 minutes where there are none, unless the URI says how long it may."""
_TELLING = 4
"""Letters from which on a part of a URI is taken for a secret wherever it turns up."""


def shown(text: str) -> str:
    """A URI without what may be secret in it: who asks, the password and the query. Other text stays as it is.

    Examples
    --------
    >>> shown("s3://KEY:SECRET@bucket/folder?endpoint_override=localhost:9000")
    's3://bucket/folder'
    """
    scheme = _SCHEME.match(text)
    if scheme is None or scheme[1] == "file":
        return text
    rest = text[scheme.end() :]
    where, slash, path = rest.partition("/")
    if "@" in where:
        rest = where.rpartition("@")[2] + slash + path
    elif "@" in path and (not where or ":" in rest.partition("@")[0]):  # perhaps a secret with a slash in it
        return f"{scheme[0]}…"
    return scheme[0] + re.split(r"[?#]", rest)[0]


@dataclass(frozen=True)
class RemotePath:
    """A file or folder in a store, which its `uri` or the file system `given` opens: `inside` it, or what the URI says.

    Nothing is asked of the store before something is read.
    """

    uri: str = field(repr=False)
    inside: str | None = None
    given: Any = field(default=None, repr=False, compare=False)

    @property
    def filesystem(self) -> Any:
        return self.given or _store(self.uri)[0]

    @property
    def path(self) -> str:
        return _store(self.uri)[1].rstrip("/") if self.inside is None else self.inside

    def __str__(self) -> str:
        return shown(self.uri) if self.inside is None else f"{self.uri.partition(':')[0]}://{self.inside}"

    @property
    def name(self) -> str:
        return PurePosixPath(str(self)).name

    @property
    def stem(self) -> str:
        return PurePosixPath(str(self)).stem

    @property
    def suffix(self) -> str:
        return PurePosixPath(str(self)).suffix

    def open(self, mode: str = "rb") -> Any:
        """The file, to be read anywhere in it."""
        return self.filesystem.open_input_file(self.path)

    def facts(self, opened: Any = None) -> tuple[int, int, str]:
        """Size, time of writing and tag (ETag); the time, which some stores tell to the second, only without a tag."""
        with nullcontext(opened) if opened else self.open() as file:
            told = {str(name).lower(): value for name, value in (file.metadata() or {}).items()}
            size, tag = file.size(), told.get("etag")
        if tag:
            return size, 0, tag.decode() if isinstance(tag, bytes) else str(tag)
        info = self.filesystem.get_file_info(self.path)
        return info.size, info.mtime_ns or 0, ""

    def is_dir(self) -> bool:
        """Whether it is a folder; an error if there is nothing, or if the store does not answer."""
        from pyarrow import ArrowException

        try:
            kind = self.filesystem.get_file_info(self.path).type.name
        except (ArrowException, OSError) as error:  # often the credentials, of which nothing was asked before
            raise InputError(f"{self} cannot be read: {_reason(self.uri, error)}") from None
        if kind == "NotFound":
            raise InputError(f"{self} does not exist")
        return bool(kind == "Directory")

    def files(self) -> list[RemotePath]:
        """All files in a folder and the folders in it."""
        from pyarrow import fs

        found = self.filesystem.get_file_info(fs.FileSelector(self.path, recursive=True))
        return [RemotePath(self.uri, one.path, self.given) for one in found if one.type.name == "File"]


AnyPath: TypeAlias = Path | RemotePath


def as_path(given: Any) -> AnyPath:
    """The file or folder that is meant by a path, a URI, or a file system of pyarrow and a path in it."""
    if isinstance(given, Path | RemotePath):
        return given
    if isinstance(given, tuple) and len(given) == 2 and hasattr(given[0], "open_input_file"):
        return RemotePath(f"{given[0].type_name}://{given[1]}", str(given[1]).rstrip("/"), given[0])
    if not isinstance(given, str | os.PathLike):
        raise InputError(
            f"{type(given).__name__} cannot be opened; give a path, a URI such as 's3://bucket/folder', a pair of a "
            "pyarrow file system and a path in it, or a Dask DataFrame or Array"
        )
    text = os.fspath(given)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(text)
    return Path(_store(text)[1]) if scheme[1] == "file" else RemotePath(text)


def in_stream(path: AnyPath) -> Any:
    """The bytes of a file from its beginning on, unpacked where its name says that they are packed."""
    if isinstance(path, RemotePath):
        return path.filesystem.open_input_stream(path.path)
    import pyarrow as pa

    return pa.input_stream(path)


@lru_cache(maxsize=16)
def _store(uri: str) -> tuple[Any, str]:
    """The file system of a URI, and the path in it."""
    from pyarrow import ArrowException, fs

    asked = uri
    if uri.startswith(("gs://", "gcs://")) and "retry_limit_seconds" not in uri:
        asked += f"{'&' if '?' in uri else '?'}{_RETRY}"
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(asked)
        return found
    except (ArrowException, OSError) as error:
        raise InputError(f"{shown(uri)} cannot be opened: {_reason(uri, error)}") from None


def _reason(uri: str, error: Exception) -> str:
    """What pyarrow says of a URI, unless that names what may be secret in it."""
    reason = str(error).replace(uri, shown(uri)).partition("\n")[0]
    who, _, rest = uri.partition("://")[2].rpartition("@")
    secrets = re.split(r"[:@]", who) + re.split(r"[?&=]", rest)[1:]
    if any(len(one) >= _TELLING and one in reason for part in secrets for one in (part, unquote(part))):
        return "what pyarrow says of it names a part of the URI that may be secret"
    return reason
