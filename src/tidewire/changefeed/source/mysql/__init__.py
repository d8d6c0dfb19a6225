"""MySQL and MariaDB as a changefeed's source: ``MysqlSource`` reads a snapshot and then the binary log."""

from tidewire.changefeed.source.mysql.source import MysqlSource

__all__ = ["MysqlSource"]
