"""What is written as TOML is read as the same."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidewire.changefeed.http.documents import toml_text

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.booleans() | st.integers(-(2**63), 2**64) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))


@given(st.dictionaries(texts, values, max_size=5))
def test_a_document_comes_back(document: dict[str, Any]) -> None:
    assert tomllib.loads(toml_text(document)) == document
