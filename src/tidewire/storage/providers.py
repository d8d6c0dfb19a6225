"""The kinds of object stores, and what the parameters of their URIs mean to ``obstore``.

The parameters are TiCDC's. What a URI does not say comes from the environment variables of the provider.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tidewire.errors import OptionError, known_names
from tidewire.storage.base import SCHEMES, checked_name


@dataclass(frozen=True, slots=True)
class Provider:
    """A kind of object store: its class in ``obstore.store`` and the settings that parameters stand for.

    ``endpoints`` are the variables that can have the server's address. ``file_io`` is the class of Iceberg's file IO
    for it, ``table_io`` what that calls the parameters. ``unused`` parameters are taken and have no effect.
    """

    kind: str
    bucket: str
    endpoints: tuple[str, ...]
    settings: Mapping[str, str]
    file_io: str
    table_io: Mapping[str, str]
    unused: frozenset[str] = frozenset()

    @property
    def known(self) -> frozenset[str]:
        """The parameters that have an effect."""
        return frozenset((*self.settings, "endpoint", *_SPECIAL.get(self.kind, ())))


_TABLE_SCHEMES: Mapping[str, str] = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
"""Names of schemes that Iceberg knows by another one."""

_SPECIAL: Mapping[str, tuple[str, ...]] = {"S3Store": ("force-path-style", "role-arn", "external-id")}

PROVIDERS: Mapping[str, Provider] = {
    "s3": Provider(
        "S3Store",
        "bucket",
        ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
        {
            "access-key": "access_key_id",
            "secret-access-key": "secret_access_key",
            "session-token": "session_token",
            "region": "region",
        },
        "org.apache.iceberg.aws.s3.S3FileIO",
        {
            "access-key": "s3.access-key-id",
            "secret-access-key": "s3.secret-access-key",
            "session-token": "s3.session-token",
            "region": "client.region",
        },
        frozenset({"acl", "provider", "sse", "sse-kms-key-id", "storage-class", "use-accelerate-endpoint"}),
    ),
    "gs": Provider(
        "GCSStore",
        "bucket",
        ("GOOGLE_BASE_URL",),
        {"credentials-file": "service_account"},
        "org.apache.iceberg.gcp.gcs.GCSFileIO",
        {},
        frozenset({"storage-class", "predefined-acl"}),
    ),
    "az": Provider(
        "AzureStore",
        "container_name",
        ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
        {
            "account-name": "account_name",
            "account-key": "account_key",
            "sas-token": "sas_key",
            "encryption-key": "encryption_key",
        },
        "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
        {"account-name": "adls.auth.shared-key.account.name", "account-key": "adls.auth.shared-key.account.key"},
        frozenset({"access-tier", "encryption-scope"}),
    ),
}


@dataclass(frozen=True, slots=True)
class Address:
    """An object store's URI in its parts; ``text`` is the whole URI, credentials included."""

    text: str
    uri: str
    provider: Provider
    bucket: str
    prefix: str
    parameters: Mapping[str, str]
    account: str = ""

    @classmethod
    def parse(cls, scheme: str, rest: str, option: str) -> Address:
        """The parts of what follows ``scheme://``."""
        place, _, query = rest.partition("?")
        authority, _, prefix = place.strip("/").partition("/")
        bucket, at, host = authority.partition("@")
        provider = PROVIDERS[SCHEMES.get(scheme, scheme)]
        if not bucket or ":" in bucket or (at and provider.kind != "AzureStore"):
            raise OptionError(option, f"the URI does not name a bucket: {scheme}://bucket/path")
        try:
            prefix = checked_name(prefix) if prefix else ""
        except OptionError as error:
            raise OptionError(option, error.reason) from None
        uri = f"{scheme}://{authority}/{prefix}".rstrip("/")
        parameters = {name.replace("_", "-"): value for name, value in parse_qsl(query, keep_blank_values=True)}
        unknown = sorted(set(parameters) - provider.known - provider.unused)
        if unknown:
            advice = known_names(unknown[0], provider.known)
            raise OptionError(option, f"{scheme}:// does not know the parameter {unknown[0]!r}; {advice}")
        text = f"{uri}?{query}" if query else uri
        return cls(text, uri, provider, bucket, prefix, parameters, host.partition(".")[0])

    def below(self, name: str) -> Address:
        """The address of a folder of this one."""
        _, mark, query = self.text.partition("?")
        uri, prefix = f"{self.uri}/{name}", f"{self.prefix}/{name}".lstrip("/")
        return Address(f"{uri}{mark}{query}", uri, self.provider, self.bucket, prefix, self.parameters, self.account)

    def config(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the class of ``obstore`` is made with: its settings, and those of its HTTP client."""
        found = {
            setting: self.parameters[name]
            for name, setting in self.provider.settings.items()
            if name in self.parameters
        }
        if self.account:
            found.setdefault("account_name", self.account)
        found[self.provider.bucket] = self.bucket
        endpoint = self._endpoint()
        if self.provider.kind == "S3Store":
            found |= self._s3(endpoint)
        elif endpoint:
            found["base_url" if self.provider.kind == "GCSStore" else "endpoint"] = endpoint
        plain = any(str(found.get(name, "")).startswith("http://") for name in ("endpoint", "base_url"))
        return found, {"allow_http": True} if plain else {}

    def table_io(self) -> dict[str, str]:
        """What Iceberg's own file IO calls the same settings, and where new tables go."""
        found = {
            setting: self.parameters[name]
            for name, setting in self.provider.table_io.items()
            if name in self.parameters
        }
        scheme, _, rest = self.uri.partition("://")
        found |= {"io-impl": self.provider.file_io, "warehouse": f"{_TABLE_SCHEMES.get(scheme, scheme)}://{rest}"}
        if self.provider.kind == "S3Store":
            if "role-arn" in self.parameters:
                raise OptionError("target", "role-arn in the URI is not for tables: give the role by the environment")
            endpoint = self._s3(self._endpoint()).get("endpoint")
            if endpoint:
                found["s3.endpoint"] = endpoint
                found["s3.path-style-access"] = self.parameters.get("force-path-style", "true").lower()
        return found

    def _endpoint(self) -> str:
        """The address of the server, if it is not the provider's own."""
        named = (os.environ.get(name, "") for name in self.provider.endpoints)
        found = next(filter(None, (self.parameters.get("endpoint", ""), *named)), "").rstrip("/")
        return f"https://{found}" if found and "://" not in found else found

    def _s3(self, endpoint: str) -> dict[str, Any]:
        virtual = self.parameters.get("force-path-style", "true").lower() == "false"
        if virtual and endpoint:
            parts = urlsplit(endpoint)
            endpoint = parts._replace(netloc=f"{self.bucket}.{parts.netloc}").geturl()
        return ({"endpoint": endpoint} if endpoint else {}) | (
            {"virtual_hosted_style_request": True} if virtual else {}
        )
