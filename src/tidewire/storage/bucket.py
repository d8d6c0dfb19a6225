"""Storage in an object store, through ``obstore``."""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import obstore
from obstore import store as stores
from obstore.exceptions import AlreadyExistsError, BaseError

from tidewire.errors import FileTooLarge, MissingExtra, OptionError, StorageError, TidewireError
from tidewire.storage.base import PARTIAL, Entry, Storage, checked_name
from tidewire.storage.providers import Address

if TYPE_CHECKING:
    from obstore.store import ObjectStore, S3Credential

_RETRIES = 4
_FIRST_DELAY_SECONDS = 0.1
_RETRY_SECONDS = 30
_CONNECT_SECONDS = 5
_SILENCE_SECONDS = 30  # without a byte
_TIMEOUT_SECONDS = 600  # for a whole request, whose body may be large

_STATUS = re.compile(r"status code: (\d{3})([^:\n]*)")
_CODE = re.compile(r"<Code>([^<]*)</Code>\s*(?:<Message>([^<\n]*)[^<]*</Message>)?")  # Azure's text has several lines
_CAUSE = re.compile(r'(?:message|error): "([^"]*)"')
_NO_BUCKET = re.compile("NoSuchBucket|ContainerNotFound|The specified bucket does not exist")
_NO_CREDENTIALS = re.compile(
    r"Error performing \S+ \S*(/latest/api/token|/latest/meta-data|/computeMetadata|/metadata/identity)"
)

_REFUSED: Final = (401, 403)
_EXPIRED: Final = "ExpiredToken"  # credentials may be renewed meanwhile

_CREDENTIALS: Final[Mapping[str, str]] = {
    "S3Store": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "GCSStore": "set GOOGLE_APPLICATION_CREDENTIALS, or give credentials-file in the URI",
    "AzureStore": "set AZURE_STORAGE_ACCOUNT_KEY, or give account-key in the URI",
}
"""What to do without credentials, by the kind of store."""


class BucketStorage(Storage):
    """Files below a prefix of an object store. A put is whole or not at all by the store's own promise."""

    def __init__(self, address: Address, client: ObjectStore, once: ObjectStore) -> None:
        super().__init__(address.text, address.uri)
        self._where = address
        self._client = client
        self._once = once  # the same store, for requests that must not be repeated unseen

    @classmethod
    def open(cls, address: Address) -> BucketStorage:
        """The storage at an address; the store is not contacted yet."""
        config, http = address.config()
        made = getattr(stores, address.provider.kind)
        role = _role(address.parameters)
        if address.provider.kind == "S3Store" and not role:
            role = _profile(address.parameters, os.environ)
        timeouts = {
            "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
            "read_timeout": timedelta(seconds=_SILENCE_SECONDS),
            "timeout": timedelta(seconds=_TIMEOUT_SECONDS),
        }
        try:
            client, once = (
                made(
                    config=config,
                    **role,
                    client_options=http | timeouts,
                    retry_config={
                        "max_retries": retries,
                        "retry_timeout": timedelta(seconds=_RETRY_SECONDS),
                        "backoff": {"init_backoff": timedelta(seconds=_FIRST_DELAY_SECONDS)},
                    },
                )
                for retries in (_RETRIES, 0)
            )
        except (BaseError, ValueError) as error:
            raise OptionError("storage", f"{address.uri} cannot be opened: {_first_line(error)}") from error
        return cls(address, client, once)

    def read(self, name: str, *, limit: int | None = None) -> bytes | None:
        with self.errors(name):
            try:
                found = self._client.get(self._key(name))
                if limit is not None and found.meta["size"] > limit:
                    raise FileTooLarge(self.uri, name, f"larger than {limit} bytes")
                return bytes(found.bytes())
            except FileNotFoundError as error:
                self._refuse_missing_bucket(error)
                return None

    def put(self, name: str, data: bytes) -> None:
        with self.errors(name):
            self._client.put(self._key(name), data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        doubtful = False
        deadline = time.monotonic() + _RETRY_SECONDS
        for attempt in range(_RETRIES + 1):
            if attempt:
                time.sleep(_FIRST_DELAY_SECONDS * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))
            try:
                with self.errors(name):
                    self._once.put(self._key(name), data, mode="create", use_multipart=False)
                    return True
            except StorageError as error:
                if not isinstance(error.__cause__, AlreadyExistsError):
                    if not error.transient or attempt == _RETRIES or time.monotonic() > deadline:
                        raise
                    doubtful = True  # the put may have been done although the answer was lost
                    continue
            found = self.read(name)
            if found is not None:
                return doubtful and found == data
            # A put or a delete of the same name was under way: S3 answers 409, and nothing stands there.
        raise StorageError(self.uri, name, "puts of the same name collide again and again", transient=True)

    def list(self, folder: str = "", *, recursive: bool = False) -> list[Entry]:
        prefix = self._key(folder) if folder else self._where.prefix or None
        root = f"{self._where.prefix}/" if self._where.prefix else ""
        with self.errors(folder):
            if recursive:
                found = [meta for chunk in self._client.list(prefix) for meta in chunk]
            else:
                found = [*self._client.list_with_delimiter(prefix)["objects"]]
        entries = [
            Entry(meta["path"].removeprefix(root), meta["size"], meta["last_modified"].timestamp()) for meta in found
        ]
        folders = {folder, *(entry.name.rpartition("/")[0] for entry in entries)}  # consoles make an object of them
        return sorted(entry for entry in entries if entry.name not in folders and not _is_partial(entry.name))

    def delete(self, names: Iterable[str]) -> None:
        keys = [self._key(name) for name in names]
        with self.errors(""):
            try:
                if keys:
                    self._client.delete(keys)
            except FileNotFoundError as error:
                self._refuse_missing_bucket(error)
                for key in keys:
                    with contextlib.suppress(FileNotFoundError):
                        self._client.delete(key)

    def exists(self, name: str) -> bool:
        with self.errors(name):
            try:
                self._client.head(self._key(name))
            except FileNotFoundError:
                return False
            return True

    def output(self, name: str) -> BinaryIO:
        with self.errors(name):
            return cast("BinaryIO", _Output(self, name, obstore.open_writer(self._client, self._key(name))))

    def input(self, name: str) -> BinaryIO:
        key = self._key(name)
        with self.errors(name):
            try:
                size = self._client.head(key)["size"]
            except FileNotFoundError:
                raise StorageError(self.uri, name, "there is no such file") from None
        return cast("BinaryIO", _Input(self, name, self._client, key, size))

    def below(self, name: str) -> Storage:
        return BucketStorage(self._where.below(checked_name(name)), self._client, self._once)

    def remove_partial(self, before: float) -> None:
        return

    @contextlib.contextmanager
    def errors(self, name: str) -> Iterator[None]:
        """Turn ``obstore``'s errors into ``StorageError``."""
        try:
            yield
        except TidewireError:
            raise
        except (BaseError, OSError, ValueError) as error:
            raise self._error(name, error) from error

    def _key(self, name: str) -> str:
        key = f"{self._where.prefix}/{checked_name(name)}".lstrip("/")
        if "\\" in key and self._where.provider.kind == "AzureStore":
            reason = "cannot be the name of a file in Azure, which takes a backslash for a slash"
            raise OptionError("path", f"{key!r} {reason}; use a name without it")
        return key

    def _refuse_missing_bucket(self, error: FileNotFoundError) -> None:
        if _NO_BUCKET.search(str(error)):
            raise self._no_bucket() from error

    def _no_bucket(self) -> StorageError:
        return StorageError(self.uri, "", f"there is no bucket {self._where.bucket!r}: make it, or check the URI")

    def _error(self, name: str, error: Exception) -> StorageError:
        text = str(error)
        if _NO_BUCKET.search(text):
            return self._no_bucket()
        if _NO_CREDENTIALS.search(text):  # obstore asks the machine's own service last
            way = _CREDENTIALS[self._where.provider.kind]
            return StorageError(self.uri, name, f"no credentials were found in the URI or the environment: {way}")
        status = _STATUS.search(text)
        if status is None:
            cause = _CAUSE.findall(text) or (["it timed out"] if "TimedOut" in text else ["the connection failed"])
            sent = "HttpError" in text or "HTTP error" in text
            return StorageError(self.uri, name, f"no answer: {cause[-1]}" if sent else _first_line(error), sent)
        number = int(status[1])
        code = _CODE.search(text)
        words = f" ({code[2] or code[1]})" if code else ""
        words += "; check the credentials and their rights" if number in _REFUSED else ""
        expired = code is not None and code[1] == _EXPIRED
        transient = expired or number in (408, 429) or (number >= 500 and number != 501)
        return StorageError(self.uri, name, f"the store answers {number}{status[2].rstrip()}{words}", transient)


def _role(parameters: Mapping[str, str]) -> dict[str, Any]:
    """The credentials of the role that a URI names."""
    if not parameters.get("role-arn"):
        return {}
    try:
        import boto3
    except ImportError as error:
        raise MissingExtra("boto3", "aws") from error
    session = boto3.Session(
        parameters.get("access-key"),
        parameters.get("secret-access-key"),
        parameters.get("session-token"),
        parameters.get("region"),
    )
    asked = {"RoleArn": parameters["role-arn"], "RoleSessionName": "tidewire"}
    if parameters.get("external-id"):
        asked["ExternalId"] = parameters["external-id"]

    def credentials() -> S3Credential:
        found = session.client("sts").assume_role(**asked)["Credentials"]
        return {
            "access_key_id": found["AccessKeyId"],
            "secret_access_key": found["SecretAccessKey"],
            "token": found["SessionToken"],
            "expires_at": found["Expiration"].astimezone(timezone.utc),
        }

    return {"credential_provider": credentials}


_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
"""Variables that say where credentials are, and that ``obstore`` reads itself."""


def _profile(parameters: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    """The credentials of a profile, if neither the URI nor another variable has any. ``obstore`` knows no profiles."""
    name = environment.get("AWS_PROFILE")
    if "access-key" in parameters or (not name and any(environment.get(key) for key in _KEYS)):
        return {}
    files = environment.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    if not name and not Path(files).expanduser().is_file():
        return {}
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        if not name:
            return {}
        raise MissingExtra("boto3", "aws") from error
    try:
        session = boto3.Session(profile_name=name, region_name=parameters.get("region"))
        if session.get_credentials() is None:
            return {}
        return {"credential_provider": Boto3CredentialProvider(session)}
    except Exception as error:  # botocore has many, all with a line that says what is wrong in the files
        raise OptionError("AWS_PROFILE", str(error).partition("\n")[0]) from error


def _is_partial(name: str) -> bool:
    return PARTIAL.fullmatch(name.rpartition("/")[2]) is not None


def _first_line(error: Exception) -> str:
    """What an error of ``obstore`` says, without the address, which may hold a signature."""
    line = str(error).partition("\n")[0]
    return re.sub(r"\S+://\S+", "…", line.rpartition(" - ")[2])


class _Output(io.RawIOBase):
    """A new object; it appears when it is closed."""

    def __init__(self, storage: BucketStorage, name: str, writer: obstore.WritableFile) -> None:
        super().__init__()
        self._storage, self._name = storage, name
        self._writer: obstore.WritableFile | None = writer

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self._writer is None:
            raise ValueError("write to a closed file")
        with self._storage.errors(self._name):
            self._writer.write(bytes(data))
        return len(data)

    def close(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with self._storage.errors(self._name):
                writer.close()
        super().close()

    def discard(self) -> None:
        """Do not let it appear."""
        self._writer = None
        super().close()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        self.discard()


class _Input(io.RawIOBase):
    """An object to read: every read is one request for its range."""

    def __init__(self, storage: BucketStorage, name: str, client: ObjectStore, key: str, size: int) -> None:
        super().__init__()
        self._storage, self._name, self._client, self._key, self._size = storage, name, client, key, size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        length = left if size is None or size < 0 else min(size, left)
        if length == 0:
            return b""
        with self._storage.errors(self._name):
            data = bytes(self._client.get_range(self._key, start=self._at, length=length))
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        return self.read(-1)

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
