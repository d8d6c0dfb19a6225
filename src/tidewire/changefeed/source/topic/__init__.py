"""Another changefeed's topics as a source: what was sent, once and in commit order again."""

from tidewire.changefeed.source.topic.source import TopicSource

__all__ = ["TopicSource"]
