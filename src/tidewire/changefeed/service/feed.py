"""A changefeed as the store keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from tidewire.changefeed.checkpoint import Checkpoint
from tidewire.changefeed.config.parameters import of_sink
from tidewire.changefeed.config.replica import ReplicaConfig
from tidewire.changefeed.config.settings import Settings
from tidewire.changefeed.config.uri import SinkURI
from tidewire.changefeed.config.validate import Request, validate
from tidewire.changefeed.service.lifecycle import Life, State
from tidewire.errors import ChangefeedError
from tidewire.secrets import Secret

NOT_EXISTS = "CDC:ErrChangeFeedNotExists"
NO_SAFE_POINT = -1
"""Our upstreams say themselves, when they are read, that their history is gone."""


class FeedKey(NamedTuple):
    """What a changefeed is found by; newer servers call the namespace a keyspace."""

    namespace: str
    id: str


def unknown(key: FeedKey) -> ChangefeedError:
    """What to raise where there is no changefeed of that name."""
    return ChangefeedError(NOT_EXISTS, f"there is no changefeed {key.id}")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a changefeed is. ``synced_ts`` is the checkpoint that last had rows before it."""

    checkpoint: Checkpoint
    synced_ts: int = 0


@dataclass(frozen=True, slots=True)
class Feed:
    """A changefeed. A ``target_ts`` of 0 means no end."""

    key: FeedKey
    sink_uri: Secret
    config: ReplicaConfig
    start_ts: int
    target_ts: int
    created: datetime
    creator_version: str
    progress: Progress
    life: Life = field(default_factory=Life)

    @property
    def state(self) -> State:
        """What it is doing."""
        return self.life.state

    @property
    def shown_config(self) -> ReplicaConfig:
        """The configuration without what does not belong to the sink."""
        return of_sink(SinkURI.parse(self.sink_uri), self.config)

    def settings(self, server: str, time_zone: str) -> Settings:
        """What it runs with: the rules were obeyed when it was made, so they are again."""
        request = Request(
            self.sink_uri,
            self.key.id,
            self.start_ts,
            self.config,
            self.start_ts,
            self.target_ts,
            gc_safe_point=NO_SAFE_POINT,
            namespace=self.key.namespace,
            server=server,
            time_zone=time_zone,
        )
        return validate(request).settings
