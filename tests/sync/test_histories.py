"""Random histories of an upstream, followed through accidents: the tables are right at every published moment.

The other half of the seeds is in ``test_more_histories.py``, so that two workers can share them.
"""

from __future__ import annotations

import pytest

from sync.consumer import Clumsy
from sync.following import CHUNK, CHUNKS, failure
from sync.histories import Changefeed
from tidewire.sync.plan import PlanSettings


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_tables_equal_the_upstream_at_every_published_moment(chunk: int) -> None:
    message = failure(range(chunk * CHUNK, (chunk + 1) * CHUNK))

    assert not message, message


class Literal(Clumsy):
    """Reads the statements instead of being told what they do."""

    def __init__(self, feed: Changefeed, seed: int) -> None:
        super().__init__(feed, seed)
        self.settings = PlanSettings()


def test_statements_do_what_their_texts_say() -> None:
    message = failure(range(100), Literal)

    assert not message, message
