"""Makes decoders from names and settings, for executors, which share no memory with the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from tidewire.arrow import BatchDecoder, Policy, ZeroDates
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.claim_check import open_store
from tidewire.codec.simple import Decoder as SimpleDecoder
from tidewire.codec.simple.schema import SchemaCache
from tidewire.errors import RegistryError
from tidewire.model import TableSchema
from tidewire.registry import Registry, open_registry


def decoder_for(
    name: str,
    settings: Mapping[str, str],
    zero_dates: ZeroDates = ZeroDates.NULL,
    *,
    schemas: Iterable[TableSchema] = (),
    texts: Mapping[int, str] = {},
) -> BatchDecoder:
    """A decoder for one task. ``schemas`` are those Simple sent earlier, ``texts`` Avro schemas by their id.

    Plans, and what a schema registry answered, are kept from task to task in each process. But schemas that messages
    brought are not: what a task knows must not depend on which tasks ran before it.
    """
    options = Options.parse(settings)
    if protocol(name).capabilities(options).needs_schema:
        known = SchemaCache()
        for schema in schemas:
            known.add(schema)
        decoder = SimpleDecoder(options, resources_of(options), known)
        return BatchDecoder(name, options, policy=Policy(options.time_zone, zero_dates), decoder=decoder)
    return _kept_decoder(name, tuple(sorted(settings.items())), zero_dates, tuple(sorted(texts.items())))


@lru_cache(maxsize=4)
def _kept_decoder(
    name: str, settings: tuple[tuple[str, str], ...], zero_dates: ZeroDates, texts: tuple[tuple[int, str], ...]
) -> BatchDecoder:
    options = Options.parse(dict(settings))
    policy = Policy(options.time_zone, zero_dates, lost_floats=name == "craft")
    return BatchDecoder(name, options, resources_of(options, dict(texts)), policy=policy)


def resources_of(options: Options, texts: Mapping[int, str] = {}) -> Resources:
    """The claim checks and the schema registry that the options name, and Avro schemas that are known already."""
    registry = open_registry(options.schema_registry) if options.schema_registry else None
    return Resources(
        claim_check=open_store(options.claim_check_storage_uri) if options.claim_check_storage_uri else None,
        registry=_Learned(texts, registry) if texts else registry,
    )


class _Learned:
    """Schemas that were fetched beforehand; others are asked of the registry, if one was given."""

    def __init__(self, texts: Mapping[int, str], registry: Registry | None) -> None:
        self._texts = dict(texts)
        self._registry = registry

    def register(self, subject: str, schema: str) -> int:
        """Refuses: messages are only read here."""
        raise RegistryError("learned schemas", f"{subject} cannot be registered with them")

    def schema(self, schema_id: int) -> str:
        """The text of a schema. One that was not learned is not the message's fault, so it is not a bad message."""
        known = self._texts.get(schema_id)
        if known is not None:
            return known
        if self._registry is None:
            raise RegistryError(
                "learned schemas", f"schema {schema_id} was not learned: call tw.learn for this topic again"
            )
        return self._registry.schema(schema_id)
