"""What a message costs, and what to do with one that is too large.

TiCDC first compresses every value, then compares the size with the limit. A row above it is refused, or sent with its
handle key only, or kept outside and replaced by a message that says where.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tidewire.codec import claim_check
from tidewire.codec.base import Field, Resources
from tidewire.codec.compression import compress, decompress
from tidewire.codec.gotext import STANDARD
from tidewire.codec.jsontext import Reader, read_json
from tidewire.codec.options import Compression, Options
from tidewire.errors import BadClaimCheck, DecodeError, EncodeError, OptionError
from tidewire.model import Message

RECORD_OVERHEAD = 5 * 5 + 10 + 1
"""What TiCDC adds to every size for Kafka's own record header."""


@dataclass(frozen=True, slots=True)
class Packing:
    """One protocol's way with values that are compressed, large, or kept elsewhere."""

    protocol: str
    options: Options
    resources: Resources

    def pack(self, value: bytes) -> bytes:
        """A value as it goes on the wire."""
        return compress(value, self.options.large_message_handle_compression)

    def unpack(self, value: bytes, part: str = "value", at: int = 0) -> bytes:
        """A value from the wire; ``at`` is where it begins."""
        try:
            return decompress(value, self.options.large_message_handle_compression)
        except ValueError as error:
            raise DecodeError(self.protocol, str(error), at, part) from error

    def inspect(self, value: bytes, at: int, read: Callable[[bytes, str, int], Iterable[Field]]) -> Iterator[Field]:
        """The fields of a value, of its unpacked form where it is compressed; ``read`` knows what is inside."""
        compression = self.options.large_message_handle_compression
        if compression is Compression.NONE:
            yield from read(value, "value", at)
            return
        try:
            unpacked = self.unpack(value, at=at)
        except DecodeError as error:
            yield Field("value", at, value, "?", error.reason)
            return
        yield Field("value", at, value, "compressed", f"{compression}, {len(unpacked)} bytes unpacked")
        yield from read(unpacked, "value unpacked", 0)

    def check_in(self, message: Message) -> str:
        """Keep a whole message in the claim-check store; its location."""
        store = self.resources.claim_check
        if store is None:
            raise EncodeError(self.protocol, "claim-check needs a store for the messages that are too large")
        name = self.resources.file_name()
        store.put(name, self._file(message))
        return f"{self.options.claim_check_storage_uri.rstrip('/')}/{name}"

    def check_out(self, location: str, at: str | int | None, part: str) -> Message:
        """The whole message behind a location; ``at`` is where the location stands.

        Raises ``DecodeError`` if what the message says is wrong: an unsafe name, a file that is not in the store. A
        store that does not answer (``ClaimCheckError``) and one that was not given (``OptionError``) are not the
        message's fault.
        """
        try:
            name = claim_check.file_name(location)
            if self.resources.claim_check is None:
                raise OptionError(claim_check.OPTION, f"it is needed to read the rest of a message, {location}")
            data = self.resources.claim_check.get(name)
        except BadClaimCheck as error:
            raise DecodeError(self.protocol, str(error), at, part) from error
        return self._message(data)

    def _file(self, message: Message) -> bytes:
        if self.options.claim_check_raw_value:
            return message.value or b""
        return b'{"key":%s,"value":%s}' % (_base64_json(message.key), _base64_json(message.value))

    def _message(self, data: bytes) -> Message:
        if self.options.claim_check_raw_value:
            return Message(None, data)
        reader = Reader(read_json(data, self.protocol, "claim check"), self.protocol, "claim check")
        return Message(_bytes(reader, "key"), _bytes(reader, "value"))


def _base64_json(data: bytes | None) -> bytes:
    return b"null" if data is None else STANDARD.quote(base64.b64encode(data))


def _bytes(reader: Reader, name: str) -> bytes | None:
    if reader.members.get(name) is None:
        return None
    encoded = reader.string(name)
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise reader.refuse(f"not Base64: {error}", name) from error
