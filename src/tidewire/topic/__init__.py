"""Topics that are not a broker's: folders of Parquet files in the columns Spark's Kafka source has.

``file:…``  a folder with a topic in each sub-folder
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tidewire.errors import MissingExtra, OptionError

if TYPE_CHECKING:
    from tidewire.topic.files import FileTopics

__all__ = ["open_topics"]


def open_topics(uri: str) -> FileTopics:
    """The topics behind a URI. Nothing needs to be there yet."""
    scheme = uri.partition(":")[0].lower() if ":" in uri else ""
    if scheme not in _SCHEMES:
        known = " or ".join(f"{each}:FOLDER" for each in _SCHEMES)
        raise OptionError("topics", f"{uri!r} is not {known}" + ("" if scheme else f"; write file:{uri}"))
    return _SCHEMES[scheme](uri)


def _files(uri: str) -> FileTopics:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or not parts.path or parts.query or parts.fragment:
        raise OptionError("topics", f"{uri!r}: topics in files are file:folder or file:///whole/path/of/folder")
    try:
        from tidewire.topic.files import FileTopics
    except ImportError as error:
        raise MissingExtra("pyarrow", "arrow") from error
    return FileTopics(unquote(parts.path))


_SCHEMES: Mapping[str, Callable[[str], FileTopics]] = {"file": _files}
