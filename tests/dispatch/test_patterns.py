"""Regular expressions are Go's, and need a package that the rest does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tidewire.dispatch.patterns import searching


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        (r"c\z", "abc", True),
        (r"\pN", "a1", True),
        ("[[:upper:]]", "abC", True),
        (r"\Qa.c\E", "abc", False),
        ("(?i)B", "abc", True),
        ("a(?i)B(?-i)c", "aBc", True),
        ("a.c", "a\nc", False),
        ("(?s)a.c", "a\nc", True),
        ("^.$", "ü", True),
    ],
)
def test_a_search_reads_gos_syntax(pattern: str, text: str, found: bool) -> None:
    assert searching(pattern)(text) is found


def test_case_is_ignored_on_request() -> None:
    assert searching("ABC", ignore_case=True)("xabcx")
    assert not searching("ABC")("xabcx")


@pytest.mark.parametrize("pattern", ["(", "a++", r"(a)\1", "(?=a)", "(?<!a)b", "[z-a]", "a{2000}"])
def test_what_go_does_not_know_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        searching(pattern)


def test_a_search_takes_linear_time() -> None:
    assert not searching("(a*)*b")("a" * 50_000)


def test_only_regular_expressions_need_the_package() -> None:
    program = """
import sys
for name in ("re2", "pyspark", "pyarrow", "confluent_kafka", "fastavro", "httpx", "click", "rich", "lz4", "cramjam"):
    sys.modules[name] = None
from tidewire.dispatch import TableRules
from tidewire.errors import MissingExtra
from tidewire.model import TableName
assert TableRules.parse(["a*.[!b]", '"c".d']).matches(TableName("ax", "c"))
try:
    TableRules.parse(["/a/.b"])
except MissingExtra as error:
    assert (error.package, error.extra) == ("google-re2", "changefeed")
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", program], check=True)
