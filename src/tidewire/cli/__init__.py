"""The command line: one module per verb, each thin."""

from __future__ import annotations

import sys


def main() -> None:
    """The ``tidewire`` command."""
    try:
        from tidewire.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit("the tidewire command needs click and rich: pip install 'tidewire[cli]'")
    except KeyboardInterrupt:
        print("stopped by Ctrl-C", file=sys.stderr)
        sys.exit(130)
    app()
