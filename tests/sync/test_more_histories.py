"""The other half of the random histories."""

from __future__ import annotations

import pytest

from sync.following import CHUNK, CHUNKS, failure


@pytest.mark.parametrize("chunk", range(CHUNKS, 2 * CHUNKS))
def test_the_tables_equal_the_upstream_at_every_published_moment(chunk: int) -> None:
    message = failure(range(chunk * CHUNK, (chunk + 1) * CHUNK))

    assert not message, message
