"""What a sink's codec needs from outside, from its options: a schema registry, a store for large messages."""

from __future__ import annotations

from tidewire.codec import Options, Resources
from tidewire.codec.claim_check import open_store
from tidewire.codec.options import LargeMessage
from tidewire.registry import open_registry


def resources_for(options: Options) -> Resources:
    """The registry and the store that options name; neither is contacted before it is needed."""
    checks = options.large_message_handle_option is LargeMessage.CLAIM_CHECK
    return Resources(
        claim_check=open_store(options.claim_check_storage_uri) if checks else None,
        registry=open_registry(options.schema_registry) if options.schema_registry else None,
    )
