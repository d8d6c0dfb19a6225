"""One contract, on a local disk and in an object store."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from integration.emulators import Azure, azurite, fake_gcs_server
from integration.hdfs import Trouble, hdfs, in_trouble
from object_stores import PARAMETERS, S3, Answer, Request, http_server, s3_server, send
from tidewire.errors import FileTooLarge, MissingExtra, OptionError, StorageError
from tidewire.storage import Entry, SplitStorage, Storage, known_parameters, open_storage, store_kind

ODD_NAMES = [
    "a b.json",
    "a%20b",
    "100%",
    "ü/日本語",
    "a#b?c=d&e",
    "x+y~(z)",
    "..two",
    ".hidden",
    "-",
    'q"\\',
    "a\u00a0b",
]


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with s3_server() as server:
        yield server


@pytest.fixture(scope="module")
def hadoop() -> Iterator[str]:
    with hdfs() as uri:
        yield uri


@pytest.fixture(scope="module")
def azure() -> Iterator[Azure]:
    with azurite() as store:
        yield store


@pytest.fixture(scope="module")
def no_token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The credentials file of the page for a server that wants no token."""
    page = Path(__file__).parents[1] / "docs" / "how-to" / "catalogs.md"
    (text,) = re.findall(r"```json\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    file = tmp_path_factory.mktemp("gcs") / "no-token.json"
    file.write_text(text)
    return file


@pytest.fixture(params=["folder", "s3", *(pytest.param(each, marks=pytest.mark.stores) for each in ("hdfs", "azure"))])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place."""
    if request.param == "folder":
        return str(tmp_path / "new" / "place")
    if request.param == "hdfs":
        return f"{request.getfixturevalue('hadoop')}/{uuid.uuid4().hex}"
    return str(request.getfixturevalue(request.param).uri())


@pytest.fixture
def storage(uri: str) -> Storage:
    return open_storage(uri)


def names(entries: list[Entry]) -> list[str]:
    return [entry.name for entry in entries]


def one_wins(storage: Storage, rounds: int, writers: int) -> None:
    """Let so many threads put a name at once, round by round: exactly one of them wins, and its bytes stay."""
    with ThreadPoolExecutor(writers) as pool:
        for number in range(rounds):
            start = threading.Barrier(writers)

            def put(writer: int, name: str = f"epochs/{number}", start: threading.Barrier = start) -> bool:
                start.wait()
                return storage.put_if_absent(name, str(writer).encode())

            won = [*pool.map(put, range(writers))]
            assert won.count(True) == 1
            assert storage.read(f"epochs/{number}") == str(won.index(True)).encode()


# Documents


def test_a_document_is_read_as_it_was_put(storage: Storage) -> None:
    assert storage.read("state/1.json") is None
    assert not storage.exists("state/1.json")

    for data in (b"one", b"", bytes(range(256)) * 40_000):
        storage.put("state/1.json", data)
        assert storage.read("state/1.json") == data
        assert storage.exists("state/1.json")


def test_the_first_put_wins(storage: Storage) -> None:
    assert storage.put_if_absent("plans/1", b"mine")
    assert not storage.put_if_absent("plans/1", b"theirs")
    assert not storage.put_if_absent("plans/1", b"mine")
    assert storage.read("plans/1") == b"mine"

    storage.delete(["plans/1"])

    assert storage.put_if_absent("plans/1", b"theirs")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_names(storage: Storage, name: str) -> None:
    if "\\" in name and store_kind(storage.uri) == "az":
        name = name.replace("\\", "")  # refused: another test
    assert storage.put_if_absent(name, b"1")
    assert not storage.put_if_absent(name, b"2")
    storage.put(f"folder/{name}", b"34")

    assert storage.read(name) == b"1"
    assert names(storage.list(recursive=True)) == sorted([name, f"folder/{name}"])
    assert storage.relative(storage.path("folder", name)) == f"folder/{name}"
    with storage.input(f"folder/{name}") as file:
        assert file.read() == b"34"
    storage.delete([name, f"folder/{name}"])
    assert storage.list(recursive=True) == []


def test_azure_would_take_a_backslash_for_a_slash() -> None:
    for root, name in (("p", "a\\b"), ("p\\q", "a")):
        storage = open_storage(f"az://bucket/{root}?account-name=me&account-key=a2V5")
        with pytest.raises(OptionError, match=r"cannot be the name of a file in Azure"):
            storage.put(name, b"1")


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "a//b", "../x", "a/../../x", ".", "a/.", "a\0b", "a\n", ".x.partial"]
)
def test_what_cannot_be_a_name_is_refused(storage: Storage, name: str) -> None:
    for used in (storage.read, storage.exists, storage.input, storage.output, storage.below):
        with pytest.raises(OptionError):
            used(name)
    with pytest.raises(OptionError):
        storage.put_if_absent(name, b"")
    with pytest.raises(OptionError):
        storage.delete([name])


def test_a_document_above_the_limit_is_not_read(storage: Storage) -> None:
    storage.put("a", b"12345")

    assert storage.read("a", limit=5) == b"12345"
    with pytest.raises(FileTooLarge, match="larger than 4 bytes") as caught:
        storage.read("a", limit=4)
    assert not caught.value.transient


# Listing and deleting


def test_a_listing_has_names_sizes_and_times_in_order(storage: Storage) -> None:
    for name in ("b/2", "b/10", "b/c/1", "a", "bb/1", "é"):
        storage.put(name, name.encode())

    assert names(storage.list()) == ["a", "é"]
    assert names(storage.list("b")) == ["b/10", "b/2"]
    assert names(storage.list("b", recursive=True)) == ["b/10", "b/2", "b/c/1"]
    assert names(storage.list(recursive=True)) == ["a", "b/10", "b/2", "b/c/1", "bb/1", "é"]
    assert storage.list("missing") == storage.list("a") == storage.list("missing/too", recursive=True) == []
    (entry,) = storage.list("b/c")
    assert (entry.name, entry.size) == ("b/c/1", 5)
    assert isinstance(entry.modified, float)


def test_a_long_listing_is_whole(storage: Storage) -> None:
    expected = [f"many/{number:04}" for number in range(1005)]
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda name: storage.put(name, b""), expected):
            pass

    assert names(storage.list("many")) == expected
    storage.delete(expected)
    assert storage.list("many") == []


def test_deleting_what_is_not_there_is_fine(storage: Storage) -> None:
    storage.put("a/b", b"")

    storage.delete(["a/b", "a/c", "x/y/z"])
    storage.delete(["a/b"])
    storage.delete([])

    assert storage.list(recursive=True) == []


def test_empty_folders_go_and_the_root_stays(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "root")
    storage.put("a/b/c", b"")
    storage.put("a/d", b"")

    storage.delete(["a/b/c"])
    assert [path.name for path in (tmp_path / "root" / "a").iterdir()] == ["d"]
    storage.delete(["a/d"])
    assert [*(tmp_path / "root").iterdir()] == []


def test_folders_that_consoles_make_are_not_files(s3: S3) -> None:
    storage = open_storage(s3.uri("console"))
    send(s3.endpoint, Request("PUT", "/bucket/console/folder/", {}, b""))
    storage.put("folder/a", b"")

    assert names(storage.list("folder")) == names(storage.list(recursive=True)) == ["folder/a"]


# Files


def test_a_large_parquet_file_goes_through(storage: Storage) -> None:
    table = pa.table({"id": pa.array(range(1_500_000)), "text": pa.array([str(n) for n in range(1_500_000)])})

    with storage.output("staged/1.parquet") as file, parquet.ParquetWriter(file, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=400_000):
            writer.write_batch(batch)
        assert storage.list(recursive=True) == []

    assert storage.list("staged")[0].size > 12_000_000
    with storage.input("staged/1.parquet") as file:
        opened = parquet.ParquetFile(file)
        assert opened.read_row_group(1, columns=["id"])["id"][0].as_py() == 400_000
        assert opened.read().equals(table)


def test_input_reads_like_a_file(storage: Storage) -> None:
    storage.put("a", b"0123456789")

    with storage.input("a") as file:
        assert (file.readable(), file.seekable(), file.read(3), file.tell()) == (True, True, b"012", 3)
        assert (file.seek(-2, os.SEEK_END), file.read(), file.read(1)) == (8, b"89", b"")
        assert (file.seek(1), file.seek(1, os.SEEK_CUR), file.read(2)) == (1, 2, b"23")
        assert (file.seek(20), file.read()) == (20, b"")
        file.seek(8)
        assert (file.readinto(buffer := bytearray(4)), bytes(buffer)) == (2, b"89\0\0")  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [3, 12_000_000])
def test_output_that_fails_does_not_appear(storage: Storage, size: int) -> None:
    storage.put("a", b"before")

    with contextlib.suppress(ZeroDivisionError), storage.output("a") as file:
        file.write(b"x" * size)
        1 / 0  # noqa: B018
    forgotten = storage.output("b")
    forgotten.write(b"x" * size)
    del forgotten

    assert names(storage.list(recursive=True)) == ["a"]
    assert storage.read("a") == b"before"
    if storage.local is not None:
        assert [path.name for path in storage.local.iterdir()] == ["a"]


def test_a_missing_file_cannot_be_opened(storage: Storage) -> None:
    storage.put("a/b", b"")

    for name in ("missing", "a/missing", "a"):
        with pytest.raises(StorageError, match="there is no such file") as caught:
            storage.input(name)
        assert not caught.value.transient


# Names, roots and pickles


def test_it_travels_as_its_address(storage: Storage, uri: str) -> None:
    storage.put("a", b"1")
    there = pickle.loads(pickle.dumps(storage))

    assert there == storage == open_storage(uri)
    assert hash(there) == hash(storage)
    assert there != storage.below("x")
    assert there != uri
    assert there.read("a") == b"1"
    assert pickle.loads(pickle.dumps(storage)) is there


def test_the_root_of_another(storage: Storage) -> None:
    below = storage.below("x y/z")
    below.put("a", b"1")

    assert storage.read("x y/z/a") == b"1"
    assert names(below.list(recursive=True)) == ["a"]
    assert below.uri == storage.path("x y", "z")
    assert below.path("a") == storage.path("x y/z/a")
    assert pickle.loads(pickle.dumps(below)).read("a") == b"1"


def test_paths_lead_back_to_names(storage: Storage) -> None:
    assert storage.relative(storage.path()) == ""
    assert storage.relative(storage.path("a", "b/c")) == "a/b/c"
    for outside in (storage.uri + "x/a", "/", "s3://other/a", storage.uri.rpartition("/")[0]):
        with pytest.raises(OptionError, match="is not below"):
            storage.relative(outside)


def test_paths_may_be_spelled_as_hadoop_does(tmp_path: Path, s3: S3) -> None:
    storage = open_storage(tmp_path)
    assert storage.local == tmp_path
    assert storage.relative(f"file:{tmp_path}/a") == storage.relative(f"file://{tmp_path}/a") == "a"

    storage = open_storage(s3.uri("p", scheme="s3a"))
    assert storage.local is None
    assert storage.uri == "s3a://bucket/p"
    assert storage.relative("s3://bucket/p/a") == storage.relative("s3a://bucket/p/a") == "a"


def test_credentials_are_not_shown(s3: S3) -> None:
    storage = open_storage(s3.uri("p"))

    for shown in (repr(storage), storage.uri, storage.path("a"), repr(storage.below("x"))):
        assert "secret" not in shown
    with pytest.raises(StorageError) as caught:
        storage.input("missing")
    assert "secret" not in str(caught.value)
    for wrong in (
        "s3:/me:secret@b",
        "s3://me:secret@b/x",
        "ftp://me:secret@b",
        "file://me:secret@b/x",
        "s3://b?y=secret",
    ):
        with pytest.raises(OptionError) as refused:
            open_storage(wrong)
        assert "secret" not in refused.value.reason.replace("secret-access-key", "")


def test_local_folders_have_several_spellings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "a b"

    for uri in (folder, str(folder), f"file://{tmp_path}/a%20b", f"file:{tmp_path}/a%20b", "a b", f"{folder}/"):
        assert open_storage(uri) == open_storage(folder)
    assert open_storage(f"file://localhost{folder}").uri == str(folder)
    assert open_storage("odd:name").local == tmp_path / "odd:name"
    assert open_storage(Path("s3://b")).local == tmp_path / "s3:" / "b"


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("ftp://host/x", "ftp:// is not a known kind of storage; use a local path, s3://, gs://, az://"),
        ("s3:/bucket/x", "two slashes are missing after s3:, write s3://bucket/path"),
        ("hdfs:/lake", "two slashes are missing after hdfs:, write hdfs://namenode:8020/path"),
        ("s3://", "the URI does not name a bucket: s3://bucket/path"),
        ("s3://user@bucket/x", "the URI does not name a bucket"),
        ("s3://bucket/x?endpiont=y", "does not know the parameter 'endpiont'; did you mean endpoint?"),
        ("s3://bucket/a//b", "cannot be the name of a stored file"),
        ("file://host/x", "does not name a folder of this machine; write file:///path/of/folder"),
        ("", "a path or a URI is needed"),
    ],
)
def test_a_uri_that_is_wrong_is_refused_in_one_line(uri: str, reason: str) -> None:
    with pytest.raises(OptionError) as caught:
        open_storage(uri, "claim-check-storage-uri")

    assert reason in caught.value.reason
    assert "\n" not in str(caught.value)
    assert caught.value.name == "claim-check-storage-uri"


def test_other_kinds_of_object_stores_open() -> None:
    """Their servers are not here; what is said of them is understood."""
    for uri in (
        "gs://bucket/path?endpoint=http://localhost:1",
        "az://container/path?account-name=a&account-key=a2V5",
        "azure://container/path?account-name=a&sas-token=sv%3D1%26sig%3Dx",
        "abfss://container@account.dfs.core.windows.net/path?account-key=a2V5",
    ):
        storage = open_storage(uri)
        assert storage.uri == uri.partition("?")[0]
        assert pickle.loads(pickle.dumps(storage)) == storage
    assert "account-key" in known_parameters("azblob")
    assert known_parameters("ftp") == frozenset()


def test_object_stores_need_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.delitem(sys.modules, "tidewire.storage.bucket", raising=False)

    with pytest.raises(MissingExtra, match=r"obstore is needed here; install it with: pip install 'tidewire\[sync\]'"):
        open_storage("s3://bucket/x")


def test_settings_come_from_the_environment(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")

    storage = open_storage("s3://bucket/environment")
    storage.put("a", b"1")

    assert open_storage(s3.uri("environment")).read("a") == b"1"


@pytest.mark.parametrize(
    ("variable", "uri"),
    [
        ("GOOGLE_BASE_URL", "gs://bucket/p?credentials-file={}"),
        ("AZURE_STORAGE_ENDPOINT", "az://bucket/p?account-name=me&account-key=a2V5"),
        ("AZURE_ENDPOINT", "abfss://bucket@me.dfs.core.windows.net/p?account-key=a2V5"),
    ],
)
def test_the_environment_may_lead_to_a_server_without_tls(
    variable: str, uri: str, no_token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with http_server(lambda _: Answer(404)) as server:
        monkeypatch.setenv(variable, server.endpoint)
        assert open_storage(uri.format(no_token)).read("a") is None

    assert [request.method for request in server.requests] == ["GET"]


def test_a_profile_has_credentials(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "credentials").write_text("[lake]\naws_access_key_id = profiled\naws_secret_access_key = hush\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "lake")
    asked: list[Request] = []

    def answer(request: Request) -> Answer:
        asked.append(request)
        return send(s3.endpoint, request)

    with http_server(answer) as server:
        storage = open_storage(f"s3://bucket/profile?endpoint={server.endpoint}&region=us-east-1")
        pickle.loads(pickle.dumps(storage)).put("a", b"1")

    assert "Credential=profiled/" in asked[0].headers["authorization"]
    monkeypatch.setenv("AWS_PROFILE", "pond")
    with pytest.raises(OptionError, match=r"AWS_PROFILE.*pond"):
        open_storage("s3://bucket/profile")


def test_a_folder_may_be_somewhere_else(tmp_path: Path, s3: S3) -> None:
    main, hot = open_storage(s3.uri()), open_storage(tmp_path)
    split = pickle.loads(pickle.dumps(SplitStorage(main, hot, "staged")))

    split.put("plans/1", b"plan")
    for name in ("staged/1/a", "staged/1/b"):
        with split.output(name) as file:
            file.write(name.encode())

    assert split == SplitStorage(main, hot, "staged")
    assert names(main.list(recursive=True)) == ["plans/1"]
    assert (
        names(hot.list(recursive=True)) == names(split.list("staged", recursive=True)) == ["staged/1/a", "staged/1/b"]
    )
    for name in ("plans/1", "staged/1/a"):
        assert split.relative(split.path(name)) == name
        assert split.exists(name)
        with split.input(name) as file:
            assert file.read() == split.read(name)
    split.delete(["plans/1", "staged/1/a"])
    assert names(hot.list(recursive=True)) == ["staged/1/b"]
    assert main.list(recursive=True) == []
    assert split.put_if_absent("staged/1/c", b"1") is True
    assert split.put_if_absent("staged/1/c", b"2") is False


def test_a_role_is_taken_on(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> Answer:
        asked.append(request)
        return send(s3.endpoint, request)

    with http_server(answer) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.endpoint)
        role = "role-arn=arn:aws:iam::123456789012:role/writer&external-id=tide"
        storage = open_storage(f"{s3.uri('role').replace(s3.endpoint, server.endpoint)}&{role}")
        assert storage.put_if_absent("a", b"1")

    assumed, put = asked
    assert b"AssumeRole" in assumed.body
    assert b"ExternalId=tide" in assumed.body
    assert put.headers["x-amz-security-token"]


def test_a_role_needs_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)

    with pytest.raises(MissingExtra, match=r"tidewire\[aws\]"):
        open_storage("s3://bucket?role-arn=arn:aws:iam::1:role/x")


def test_a_bucket_may_be_in_the_hosts_name() -> None:
    with http_server(lambda _: Answer(200, {"Last-Modified": "Wed, 18 Nov 2026 12:00:00 GMT"}, b"1")) as server:
        endpoint = server.endpoint.replace("127.0.0.1", "localhost")
        query = "&".join(f"{name}={value}" for name, value in PARAMETERS.items() if name != "force-path-style")
        storage = open_storage(f"s3://bucket/p?endpoint={endpoint}&{query}&force-path-style=false")
        try:
            found = storage.read("a")
        except StorageError as error:  # not every machine knows bucket.localhost
            assert "lookup" in error.reason
            return

    assert found == b"1"
    assert server.requests[0].target == "/p/a"
    assert server.requests[0].headers["host"].startswith("bucket.localhost")


# Races


def test_of_many_threads_one_wins(storage: Storage) -> None:
    one_wins(storage, 8, 6)


_RACE = """
import sys
from tidewire.storage import open_storage
storage = open_storage(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print(*[number for number in range(20) if storage.put_if_absent(f"epochs/{number}", sys.argv[2].encode())], flush=True)
"""


def test_of_many_processes_one_wins(storage: Storage, uri: str) -> None:
    command = [sys.executable, "-c", _RACE, uri]
    processes = [
        subprocess.Popen([*command, str(writer)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for writer in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    won = [[int(number) for number in process.communicate()[0].split()] for process in processes]

    assert sorted(number for numbers in won for number in numbers) == [*range(20)]
    for writer, numbers in enumerate(won):
        assert all(storage.read(f"epochs/{number}") == str(writer).encode() for number in numbers)


def test_a_reader_sees_whole_documents(storage: Storage) -> None:
    whole = [bytes([letter]) * 300_000 for letter in b"ab"]
    storage.put("a", whole[0])
    done = threading.Event()

    def write() -> None:
        for _ in range(10):
            for data in whole:
                storage.put("a", data)
        done.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not done.is_set() and not writing.done():
            assert storage.read("a") in whole
        writing.result()


def test_folders_may_go_while_documents_come(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)

    def come_and_go(writer: int) -> None:
        for number in range(60):
            storage.put(f"a/b/{writer}-{number}", b"")
            storage.delete([f"a/b/{writer}-{number}"])

    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(come_and_go, range(4)):
            pass
    assert [*tmp_path.iterdir()] == []


# Crashes


_KILLED = """
import os, signal, sys
from tidewire.storage import open_storage
def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
setattr(os, sys.argv[2], die)
storage = open_storage(sys.argv[1])
{"link": storage.put_if_absent, "replace": storage.put, "fsync": storage.put}[sys.argv[2]]("a/doc", b"1" * 100_000)
"""


@pytest.mark.parametrize("step", ["fsync", "link", "replace"])
def test_a_killed_writer_leaves_nothing_to_see(tmp_path: Path, step: str) -> None:
    storage = open_storage(tmp_path)
    (tmp_path / "a").mkdir()  # else its own durability is the first to flush

    process = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path), step], check=False)

    assert process.returncode == -9
    (left,) = (tmp_path / "a").iterdir()
    assert storage.read("a/doc") is None
    assert storage.list("a") == storage.list(recursive=True) == []
    assert storage.put_if_absent("a/doc", b"2")
    storage.remove_partial(before=left.stat().st_mtime)
    assert left.exists()
    storage.remove_partial(before=left.stat().st_mtime + 1)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["doc"]


def test_what_is_put_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    flush = os.fsync

    def watch(handle: int) -> None:
        flushed.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        flush(handle)

    monkeypatch.setattr(os, "fsync", watch)
    for put in (open_storage(tmp_path).put, open_storage(tmp_path).put_if_absent):
        flushed.clear()
        put(f"{put.__name__}/b/doc", b"1")

        made = tmp_path / put.__name__
        assert flushed[:2] == [str(tmp_path), str(made)]
        assert flushed[2].endswith(".partial")
        assert flushed[3:] == [str(made / "b")]


def test_an_object_store_has_nothing_to_tidy(s3: S3) -> None:
    storage = open_storage(s3.uri())
    storage.put("a", b"1")

    storage.remove_partial(before=1e12)

    assert storage.read("a") == b"1"


# Trouble


def test_the_disks_trouble_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage(tmp_path / "root")
    (tmp_path / "root").write_bytes(b"a file, not a folder")
    with pytest.raises(StorageError) as caught:
        storage.put("a", b"")
    assert (caught.value.store, caught.value.name, caught.value.transient) == (str(tmp_path / "root"), "a", False)
    assert storage.read("a") is None

    for number, transient in ((errno.ENOSPC, True), (errno.ESTALE, True), (errno.EACCES, False), (errno.EROFS, False)):

        def fail(*_: object, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        storage = open_storage(tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fail)
            with pytest.raises(StorageError, match=os.strerror(number)) as caught:
                storage.put("doc", b"1")
            assert caught.value.transient is transient
            with pytest.raises(StorageError):
                storage.put_if_absent("doc", b"1")
        assert storage.list() == [Entry("root", 20, storage.list()[0].modified)]


OPERATIONS: dict[str, Callable[[Storage], object]] = {
    "read": lambda storage: storage.read("a"),
    "put": lambda storage: storage.put("a", b"1"),
    "put_if_absent": lambda storage: storage.put_if_absent("a", b"1"),
    "list": lambda storage: storage.list(),
    "list recursive": lambda storage: storage.list(recursive=True),
    "delete": lambda storage: storage.delete(["a"]),
    "exists": lambda storage: storage.exists("a"),
    "input": lambda storage: storage.input("a"),
    "output": lambda storage: storage.output("a").close(),
    "probe": lambda storage: storage.probe(),
}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between attempts that are short."""
    monkeypatch.setattr("tidewire.storage.bucket._FIRST_DELAY_SECONDS", 0.001)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("status", "transient"), [(503, True), (500, True), (429, True), (403, False), (401, False)])
def test_a_store_that_refuses_is_not_an_empty_store(operation: str, status: int, transient: bool) -> None:
    with http_server(lambda _: Answer(status)) as server:
        storage = open_storage(S3(server.endpoint).uri("p"))
        with pytest.raises(StorageError, match=f"answers {status}") as caught:
            OPERATIONS[operation](storage)

    assert caught.value.transient is transient
    assert caught.value.store == "s3://bucket/p"
    assert "\n" not in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.transient, copy.name) == (str(caught.value), transient, caught.value.name)


@pytest.mark.parametrize(
    ("code", "transient", "advice"),
    [("ExpiredToken", True, r"\(Sorry\)$"), ("AccessDenied", False, "check the credentials and their rights")],
)
def test_credentials_that_have_expired_may_be_renewed(code: str, transient: bool, advice: str) -> None:
    body = f"<Error><Code>{code}</Code><Message>Sorry</Message></Error>".encode()
    answer = Answer(400 if transient else 403, {}, body)

    with http_server(lambda _: answer) as server, pytest.raises(StorageError, match=advice) as caught:
        open_storage(S3(server.endpoint).uri()).read("a")

    assert caught.value.transient is transient


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_store_that_does_not_answer_is_not_an_empty_store(operation: str) -> None:
    with http_server(lambda _: None) as server:
        storage = open_storage(S3(server.endpoint).uri())
        with pytest.raises(StorageError, match="no answer") as caught:
            OPERATIONS[operation](storage)
        assert caught.value.transient
    words = "the connection failed" if operation == "output" else "Connection refused"  # all that obstore says of it
    with pytest.raises(StorageError, match=f"no answer: {words}") as caught:
        OPERATIONS[operation](storage)
    assert caught.value.transient


@pytest.mark.usefixtures("quick")
def test_an_answer_that_breaks_off_is_no_document() -> None:
    with http_server(lambda _: Answer(200, {"Last-Modified": "Wed, 18 Nov 2026 12:00:00 GMT"}, b"123", 10)) as server:
        with pytest.raises(StorageError, match="no answer") as caught:
            open_storage(S3(server.endpoint).uri()).read("a")
        assert caught.value.transient


@pytest.mark.usefixtures("quick")
def test_a_store_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewire.storage.bucket._SILENCE_SECONDS", 0.1)
    monkeypatch.setattr("tidewire.storage.bucket._RETRY_SECONDS", 0.1)
    finished = threading.Event()

    def hang(_: Request) -> None:
        finished.wait()

    with http_server(hang) as server:
        storage = open_storage(S3(server.endpoint).uri())
        for operation in ("read", "put", "put_if_absent", "list"):
            with pytest.raises(StorageError, match="no answer: it timed out") as caught:
                OPERATIONS[operation](storage)
            assert caught.value.transient
        finished.set()


def test_a_missing_bucket_is_named(s3: S3) -> None:
    storage = open_storage(s3.uri("p", bucket="other"))

    for operation in OPERATIONS.keys() - {"exists", "input"}:  # S3 answers those without a body
        with pytest.raises(StorageError, match="there is no bucket 'other'") as caught:
            OPERATIONS[operation](storage)
        assert not caught.value.transient


@pytest.mark.stores
@pytest.mark.slow
@pytest.mark.integration
def test_what_azure_refuses_is_said_in_one_line(azure: Azure) -> None:
    without = open_storage(azure.uri(container="other"))
    for operation in OPERATIONS.keys() - {"delete", "exists", "input"}:  # they find nothing there, and say no more
        with pytest.raises(StorageError, match="there is no bucket 'other'") as caught:
            OPERATIONS[operation](without)
        assert not caught.value.transient
    wrong = open_storage(azure.uri(key="d3Jvbmc="))
    for operation in OPERATIONS:
        with pytest.raises(StorageError, match=r"answers 403 .*check the credentials and their rights$") as caught:
            OPERATIONS[operation](wrong)
        assert "\n" not in str(caught.value)
        assert not caught.value.transient


@pytest.mark.stores
@pytest.mark.slow
@pytest.mark.integration
def test_azure_lets_one_of_four_win_every_time(azure: Azure) -> None:
    one_wins(open_storage(azure.uri()), 200, 4)


@pytest.mark.stores
@pytest.mark.slow
@pytest.mark.integration
def test_azure_takes_a_shared_access_signature(azure: Azure) -> None:
    storage = open_storage(azure.uri_by_token())

    assert storage.put_if_absent("a", b"1")
    assert not storage.put_if_absent("a", b"2")
    assert storage.read("a") == b"1"
    assert names(storage.list()) == ["a"]


@pytest.mark.usefixtures("quick")
def test_passing_trouble_is_waited_out(s3: S3) -> None:
    troubled: set[tuple[str, str]] = set()

    def once(request: Request) -> Answer:
        key = (request.method, request.target)
        if key in troubled:
            return send(s3.endpoint, request)
        troubled.add(key)
        return Answer(503)

    with http_server(once) as server:
        storage = open_storage(S3(server.endpoint).uri())
        assert storage.read("a") is None
        storage.put("a", b"1")
        assert storage.put_if_absent("b", b"1")
        assert names(storage.list()) == ["a", "b"]
    assert len(troubled) == 4


@pytest.mark.usefixtures("quick")
def test_a_put_whose_answer_is_lost_is_known_again(s3: S3) -> None:
    """The put is done, its answer is not heard, the next attempt finds a document: it is the writer's own."""
    lost = True

    def answer(request: Request) -> Answer | None:
        nonlocal lost
        answer = send(s3.endpoint, request)
        if request.method == "PUT" and lost:
            lost = False
            return None
        return answer

    with http_server(answer) as server:
        storage = open_storage(S3(server.endpoint).uri())
        assert storage.put_if_absent("a", b"mine")
        lost = True
        assert not storage.put_if_absent("a", b"theirs")
        assert storage.read("a") == b"mine"


@pytest.mark.usefixtures("quick")
@pytest.mark.stores
@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize("lost", range(1, 16))
@pytest.mark.parametrize("trouble", ["refused", "half an answer", "no answer"])
def test_a_call_that_a_name_node_loses_is_asked_again(hadoop: str, trouble: Trouble, lost: int) -> None:
    calls = count(1)
    with in_trouble(hadoop, lambda: trouble if next(calls) == lost else None) as proxy:
        storage = open_storage(f"{proxy}/{uuid.uuid4().hex}")

        assert storage.put_if_absent("a", b"1")
        assert not storage.put_if_absent("a", b"2")
        assert storage.read("a") == b"1"
        storage.put("b", b"1")
        assert names(storage.list()) == ["a", "b"]

    assert next(calls) > lost


def test_puts_that_collide_are_put_again(s3: S3) -> None:
    """S3 answers 409 while another conditional put or a delete of the same name is under way."""
    collisions = 2

    def answer(request: Request) -> Answer:
        nonlocal collisions
        if request.method == "PUT" and collisions:
            collisions -= 1
            return Answer(409, {}, b"<Error><Code>ConditionalRequestConflict</Code></Error>")
        return send(s3.endpoint, request)

    with http_server(answer) as server:
        storage = open_storage(S3(server.endpoint).uri())
        assert storage.put_if_absent("a", b"1")
        collisions = 1000
        with pytest.raises(StorageError, match="collide") as caught:
            storage.put_if_absent("b", b"1")
    assert caught.value.transient


def test_no_credentials_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with http_server(lambda _: Answer(404)) as server:
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", server.endpoint)
        storage = open_storage("s3://bucket/p?endpoint=http://127.0.0.1:1")
        with pytest.raises(StorageError, match="no credentials") as caught:
            storage.read("a")
    assert not caught.value.transient


# The probe


def test_a_store_that_heeds_conditions_passes(storage: Storage) -> None:
    storage.probe()

    assert storage.list(recursive=True) == []


def test_a_store_that_ignores_conditions_is_refused_by_name(s3: S3) -> None:
    def unconditional(request: Request) -> Answer:
        headers = {name: value for name, value in request.headers.items() if name.lower() != "if-none-match"}
        return send(s3.endpoint, request._replace(headers=headers))

    with http_server(unconditional) as server:
        storage = open_storage(S3(server.endpoint).uri("careless"))
        with pytest.raises(StorageError, match="s3://bucket/careless: it ignores conditional puts") as caught:
            storage.probe()
        assert not caught.value.transient
        assert storage.list() == []


@pytest.mark.stores
@pytest.mark.slow
@pytest.mark.integration
def test_fake_gcs_server_is_refused_in_one_line(no_token: Path) -> None:
    """It answers 400 to every put of Google's XML API, with and without a condition, so no sync can begin in it."""
    with fake_gcs_server() as store:
        made = Request("POST", "/storage/v1/b?project=p", {"Content-Type": "application/json"}, b'{"name": "bucket"}')
        assert send(store, made).status == 200
        storage = open_storage(f"gs://bucket/p?endpoint={store}&credentials-file={no_token}")
        assert storage.read("a") is None
        with pytest.raises(StorageError, match=r"gs://bucket/p.*: the store answers 400 Bad Request$") as caught:
            storage.probe()

    assert not caught.value.transient


def test_a_disk_that_ignores_conditions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", os.replace)

    with pytest.raises(StorageError, match="ignores conditional puts"):
        open_storage(tmp_path).probe()
