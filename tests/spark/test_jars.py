"""Jars are fetched whole, right and once, or not at all."""

from __future__ import annotations

import hashlib
import pickle
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tidewire.errors import JarError
from tidewire.spark import jars
from tidewire.spark.jars import LOCK, Jar, JarState, check, complete_sets, fetch, home, lock, spark_jars

CONNECTOR_LOCK = Path(__file__).parents[2] / "benchmarks" / "jars.lock.toml"
CONTENT = {"tide": b"high", "wire": b"copper"}
SMALL_LOCK = tuple(Jar("org.example", name, "1.0", hashlib.sha256(data).hexdigest()) for name, data in CONTENT.items())


@pytest.fixture
def small_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "lock", lambda file: SMALL_LOCK)


@pytest.fixture
def source(tmp_path: Path, small_lock: None) -> Path:
    """A folder with the jars of the small lock."""
    folder = tmp_path / "source"
    folder.mkdir()
    for jar in SMALL_LOCK:
        (folder / jar.file).write_bytes(CONTENT[jar.artifact])
    return folder


def ivy_settings(tmp_path: Path, resolver: str) -> Path:
    if shutil.which("java") is None:
        pytest.skip("Java is needed")
    path = tmp_path / "ivysettings.xml"
    path.write_text(
        f'<ivysettings><settings defaultResolver="own"/><resolvers>{resolver}</resolvers></ivysettings>', "utf-8"
    )
    return path


@pytest.mark.parametrize(("file", "count"), [(LOCK, 6), (CONNECTOR_LOCK, 5)])
def test_a_lock_names_each_jar_with_its_checksum(file: Path, count: int) -> None:
    entries = lock(file)

    assert len({jar.file for jar in entries}) == len(entries) == count
    assert all(len(bytes.fromhex(jar.sha256)) == 32 for jar in entries)
    assert all(jar.why for jar in entries if "preview" in jar.version)


def test_a_sync_needs_no_java_client_of_kafka() -> None:
    assert not any("kafka" in jar.file for jar in lock())


def test_jars_of_another_lock_come_too(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    (jar, other) = SMALL_LOCK
    own = tmp_path / "jars.lock.toml"
    own.write_text(f'[[jar]]\ngroup="{jar.group}"\nartifact="{jar.artifact}"\nversion="1.0"\nsha256="{jar.sha256}"\n')

    assert fetch(tmp_path / "jars", source=source, lock_file=own) == [tmp_path / "jars" / jar.file]
    assert [found.state for found in check(tmp_path / "jars", lock_file=own)] == [JarState.READY]
    assert not (tmp_path / "jars" / other.file).exists()


def test_jars_are_kept_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.delenv("TIDEWIRE_HOME", raising=False)
    assert home() == Path("/cache/tidewire/jars")

    monkeypatch.setenv("TIDEWIRE_HOME", "/own")
    assert home() == Path("/own/jars")

    monkeypatch.delenv("TIDEWIRE_HOME")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/me")
    assert home() == Path("/me/.cache/tidewire/jars")


def test_jars_come_from_a_folder(source: Path, tmp_path: Path) -> None:
    paths = fetch(tmp_path / "jars", source=source)

    assert paths == spark_jars(tmp_path / "jars")
    assert [path.read_bytes() for path in paths] == [b"high", b"copper"]
    assert sorted(path.name for path in (tmp_path / "jars").iterdir()) == ["tide-1.0.jar", "wire-1.0.jar"]


def test_only_what_is_missing_or_wrong_is_fetched(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    fetch(folder, source=source)
    (folder / "wire-1.0.jar").write_bytes(b"rust")
    (source / "tide-1.0.jar").unlink()
    assert [found.state for found in check(folder)] == [JarState.READY, JarState.WRONG]

    fetch(folder, source=source)
    shutil.rmtree(source)

    assert fetch(folder, source=source) == spark_jars(folder)


def test_a_wrong_jar_is_refused_and_nothing_changes(source: Path, tmp_path: Path) -> None:
    (source / "wire-1.0.jar").write_bytes(b"rust")

    with pytest.raises(JarError, match=r"wire-1\.0\.jar has the SHA-256 .* the lock says") as caught:
        fetch(tmp_path / "jars", source=source)

    assert list((tmp_path / "jars").iterdir()) == []
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_missing_jar_is_named_and_so_is_the_remedy(source: Path, tmp_path: Path) -> None:
    (source / "wire-1.0.jar").unlink()

    with pytest.raises(JarError, match=r"not in .*source: wire-1\.0\.jar$"):
        fetch(tmp_path / "jars", source=source)
    with pytest.raises(JarError, match=r"tide-1\.0\.jar \(missing\), wire-1\.0\.jar \(missing\); run tidewire jars"):
        spark_jars(tmp_path / "jars")


def test_a_set_is_fetched_only_where_it_is_asked_for(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tide, wire = SMALL_LOCK
    monkeypatch.setattr(jars, "lock", lambda file: (tide, replace(wire, set="aws")))
    folder = tmp_path / "jars"

    assert fetch(folder, source=source) == [folder / tide.file]
    assert complete_sets(folder) == ("base", "postgresql")  # the small lock has no jar for the latter
    with pytest.raises(JarError, match=r"wire-1\.0\.jar \(missing\); run tidewire jars aws"):
        spark_jars(folder, sets=("base", "aws"))
    assert fetch(folder, sets=("base", "aws"), source=source) == [folder / tide.file, folder / wire.file]
    assert complete_sets(folder) == ("base", "aws", "postgresql")


def test_many_may_fetch_at_once(source: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: fetch(tmp_path / "jars", source=source), range(32)))

    assert all(some == spark_jars(tmp_path / "jars") for some in paths)


def test_a_folder_that_cannot_be_made_is_a_clear_error(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(JarError, match="file"):
        fetch(tmp_path / "file" / "jars", source=source)


def test_ivy_fetches_by_the_users_settings(source: Path, tmp_path: Path) -> None:
    pattern = f"{source}/[artifact]-[revision].[ext]"
    settings = ivy_settings(tmp_path, f'<filesystem name="own"><artifact pattern="{pattern}"/></filesystem>')

    paths = fetch(tmp_path / "jars [of 1] (two)", ivy_settings=settings)

    assert [path.read_bytes() for path in paths] == [b"high", b"copper"]


def test_what_ivy_cannot_find_is_named(small_lock: None, tmp_path: Path) -> None:
    pattern = f"{tmp_path}/[artifact]-[revision].[ext]"
    settings = ivy_settings(tmp_path, f'<filesystem name="own"><artifact pattern="{pattern}"/></filesystem>')

    with pytest.raises(JarError, match=r"Ivy could not fetch .*: org\.example:tide:1\.0: not found; org\.example:wire"):
        fetch(tmp_path / "jars", ivy_settings=settings)


def test_a_network_that_does_not_answer_is_told_first(small_lock: None, tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # bound but not listening: a connection is refused
        root = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        resolver = f'<ibiblio name="own" m2compatible="true" usepoms="false" root="{root}"/>'
        settings = ivy_settings(tmp_path, resolver)

        with pytest.raises(JarError, match=r"Ivy could not fetch .*: java\.net\.ConnectException: Connection refused;"):
            fetch(tmp_path / "jars", ivy_settings=settings)


def test_settings_ivy_cannot_read_are_a_clear_error(small_lock: None, tmp_path: Path) -> None:
    settings = ivy_settings(tmp_path, "<nonsense/>")

    with pytest.raises(JarError, match=r"Ivy could not fetch .*nonsense"):
        fetch(tmp_path / "jars", ivy_settings=settings)


def test_a_missing_java_is_a_clear_error(small_lock: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JarError, match="no java in the path; Spark needs Java 17"):
        fetch(tmp_path / "jars")

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JarError, match="no java in JAVA_HOME"):
        fetch(tmp_path / "jars")


def test_the_standard_settings_name_no_host() -> None:
    """The repository is Ivy's own choice, or the user's."""
    (resolver,) = jars._settings().getroot().iterfind("resolvers/*")

    assert resolver.tag == "ibiblio"
    assert "root" not in resolver.attrib
