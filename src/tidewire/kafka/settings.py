"""How a client is let in: TiCDC's parameters for TLS and SASL, checked, and in librdkafka's words.

Sources and sinks use the same parameters, so there is one reading of them. Settings are texts and can be pickled: a
task on another machine makes its client from them. Two things that librdkafka has no setting for have names of our own
in them, which :func:`configured` takes out again: the Kerberos configuration, and tokens for an audience.
"""

from __future__ import annotations

import base64
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidewire.errors import OptionError
from tidewire.secrets import NO_SECRET, Secret, SecretURI

_GSSAPI: Final = ("auth-type", "keytab-path", "kerberos-config-path", "service-name", "user", "password", "realm")
_OAUTH: Final = ("client-id", "client-secret", "token-url", "scopes", "grant-type", "audience")
SECURITY: Final = frozenset(
    {"enable-tls", "ca", "cert", "key", "insecure-skip-verify", "sasl-user", "sasl-password", "sasl-mechanism"}
    | {f"sasl-gssapi-{name}" for name in (*_GSSAPI, "disable-pafxfast")}
    | {f"sasl-oauth-{name}" for name in _OAUTH}
)
"""The parameters that say how a client is let in."""

_MECHANISMS: Final = ("plain", "scram-sha-256", "scram-sha-512", "gssapi", "oauthbearer")
_BOOLS: Final = {**dict.fromkeys(("1", "t", "true"), True), **dict.fromkeys(("0", "f", "false"), False)}
_KERBEROS_CONFIG: Final = "tidewire.kerberos.config"
_TOKEN_REQUEST: Final = "tidewire.token.request"
_TOKEN_SECONDS: Final = 30.0
_CREDENTIALS: Final = {
    "ssl.ca.location": ("ca", "ssl.ca.pem"),
    "ssl.certificate.location": ("cert", "ssl.certificate.pem"),
    "ssl.key.location": ("key", "ssl.key.pem"),
}


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS with brokers. ``ca``, ``cert`` and ``key`` are paths of files, empty if they are not used."""

    ca: str = ""
    cert: str = ""
    key: str = ""
    insecure_skip_verify: bool = False


@dataclass(frozen=True, slots=True)
class Gssapi:
    """Kerberos. ``auth_type`` is ``user`` or ``keytab``."""

    auth_type: str = ""
    keytab_path: str = ""
    kerberos_config_path: str = ""
    service_name: str = ""
    user: str = ""
    password: Secret = NO_SECRET
    realm: str = ""
    disable_pafxfast: bool = False


@dataclass(frozen=True, slots=True)
class OAuth:
    """Tokens from an OAuth server. ``client_secret`` is decoded already."""

    client_id: str
    client_secret: Secret
    token_url: SecretURI
    scopes: tuple[str, ...] = ()
    grant_type: str = "client_credentials"
    audience: str = ""


@dataclass(frozen=True, slots=True)
class Sasl:
    """How a client says who it is. ``mechanism`` is upper case, as brokers spell it: ``SCRAM-SHA-256``."""

    mechanism: str
    user: str = ""
    password: Secret = NO_SECRET
    gssapi: Gssapi | None = None
    oauth: OAuth | None = None


@dataclass(frozen=True, slots=True)
class Security:
    """How a client is let in: nothing is needed, TLS, SASL, or both."""

    tls: Tls | None = None
    sasl: Sasl | None = None

    @classmethod
    def parse(cls, parameters: Mapping[str, str]) -> Security:
        """Security from TiCDC's parameters; others are ignored. Raises :class:`OptionError` if they do not fit."""
        return cls(_tls(parameters), _sasl(parameters))

    def settings(self, brokers: Sequence[str]) -> dict[str, str]:
        """librdkafka's settings to reach these brokers. Raises :class:`OptionError` for what it cannot do."""
        protocol = ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")
        return {
            "bootstrap.servers": ",".join(brokers),
            "security.protocol": protocol,
            **(_tls_settings(self.tls) if self.tls else {}),
            **(_SASL_SETTINGS[self.sasl.mechanism](self.sasl) if self.sasl else {}),
        }


NO_SECURITY: Final = Security()


def carried(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings that hold certificates and the key themselves instead of paths, so that they work on other machines."""
    found = dict(settings)
    for name, (parameter, inside) in _CREDENTIALS.items():
        path = found.pop(name, "")
        if path:
            try:
                found[inside] = Path(path).read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise OptionError(parameter, f"{path} cannot be read as PEM: {error}") from error
    return found


def configured(settings: Mapping[str, Any], **callbacks: Callable[..., Any]) -> dict[str, Any]:
    """What the constructor of a client of confluent-kafka takes."""
    found: dict[str, Any] = {"log_level": 0, **settings, **callbacks}
    kerberos, request = found.pop(_KERBEROS_CONFIG, None), found.pop(_TOKEN_REQUEST, None)
    if kerberos:
        os.environ["KRB5_CONFIG"] = kerberos  # the Kerberos library has no other way to be told
    if request:
        found["oauth_cb"] = lambda _: _token(json.loads(request))
    return found


def _flag(parameters: Mapping[str, str], name: str) -> bool:
    text = parameters.get(name) or "false"
    if text.lower() not in _BOOLS:
        raise OptionError(name, f"{name} is true or false, not {text!r}")
    return _BOOLS[text.lower()]


def _tls(parameters: Mapping[str, str]) -> Tls | None:
    """Files turn TLS on by themselves."""
    files = {name: parameters[name] for name in ("ca", "cert", "key") if parameters.get(name)}
    enabled, unchecked = _flag(parameters, "enable-tls"), _flag(parameters, "insecure-skip-verify")
    if not enabled and not files:
        return None
    if parameters.get("enable-tls") and not enabled:
        raise OptionError(
            "enable-tls", f"enable-tls is false, but {', '.join(files)} are given; take them away or set it to true"
        )
    if ("cert" in files) != ("key" in files):
        raise OptionError("cert", "cert and key belong together: a certificate and its private key")
    return Tls(files.get("ca", ""), files.get("cert", ""), files.get("key", ""), unchecked)


def _sasl(parameters: Mapping[str, str]) -> Sasl | None:
    given = parameters.get("sasl-mechanism") or ""
    mechanism = (given or ("plain" if parameters.get("sasl-user") else "")).lower()
    if mechanism and mechanism not in _MECHANISMS:
        raise OptionError("sasl-mechanism", f"sasl-mechanism is {', '.join(_MECHANISMS)}, not {given!r}")
    stray = [f"sasl-oauth-{name}" for name in _OAUTH[:3] if parameters.get(f"sasl-oauth-{name}")]
    if stray and mechanism != "oauthbearer":
        raise OptionError("sasl-mechanism", f"{', '.join(stray)} need sasl-mechanism oauthbearer")
    return _LOGINS[mechanism](mechanism.upper(), parameters) if mechanism else None


def _password_login(mechanism: str, parameters: Mapping[str, str]) -> Sasl:
    user, password = parameters.get("sasl-user") or "", parameters.get("sasl-password") or ""
    if not user or not password:
        raise OptionError("sasl-user", f"sasl-mechanism {mechanism.lower()} needs sasl-user and sasl-password")
    return Sasl(mechanism, user, Secret(password))


def _gssapi_login(mechanism: str, parameters: Mapping[str, str]) -> Sasl:
    given = {name: parameters.get(f"sasl-gssapi-{name}") or "" for name in _GSSAPI}
    by = given["auth-type"].lower()
    if by not in ("user", "keytab"):
        raise OptionError(
            "sasl-gssapi-auth-type", f"sasl-gssapi-auth-type is user or keytab, not {given['auth-type']!r}"
        )
    proof = "password" if by == "user" else "keytab-path"
    needed = ("kerberos-config-path", "service-name", "user", "realm", proof)
    missing = [f"sasl-gssapi-{name}" for name in needed if not given[name]]
    if missing:
        raise OptionError(missing[0], f"sasl-mechanism gssapi needs {', '.join(missing)}")
    gssapi = Gssapi(
        by,
        given["keytab-path"],
        given["kerberos-config-path"],
        given["service-name"],
        given["user"],
        Secret(given["password"]),
        given["realm"],
        _flag(parameters, "sasl-gssapi-disable-pafxfast"),
    )
    return Sasl(mechanism, parameters.get("sasl-user") or "", Secret(parameters.get("sasl-password") or ""), gssapi)


def _oauth_login(mechanism: str, parameters: Mapping[str, str]) -> Sasl:
    given = {name: parameters.get(f"sasl-oauth-{name}") or "" for name in _OAUTH}
    missing = [f"sasl-oauth-{name}" for name in _OAUTH[:3] if not given[name]]
    if missing:
        raise OptionError(missing[0], f"sasl-mechanism oauthbearer needs {', '.join(missing)}")
    try:
        secret = base64.b64decode(given["client-secret"], validate=True).decode()
    except ValueError:
        raise OptionError("sasl-oauth-client-secret", "sasl-oauth-client-secret must be Base64") from None
    oauth = OAuth(
        given["client-id"],
        Secret(secret),
        SecretURI(given["token-url"]),
        tuple(re.findall(r"[^,\s]+", given["scopes"])),
        given["grant-type"] or "client_credentials",
        given["audience"],
    )
    user, password = parameters.get("sasl-user") or "", parameters.get("sasl-password") or ""
    return Sasl(mechanism, user, Secret(password), oauth=oauth)


_LOGINS: Final[Mapping[str, Callable[[str, Mapping[str, str]], Sasl]]] = {
    "plain": _password_login,
    "scram-sha-256": _password_login,
    "scram-sha-512": _password_login,
    "gssapi": _gssapi_login,
    "oauthbearer": _oauth_login,
}


def _tls_settings(tls: Tls) -> dict[str, str]:
    files = zip(_CREDENTIALS, (tls.ca, tls.cert, tls.key), strict=True)
    unchecked = {"enable.ssl.certificate.verification": "false"} if tls.insecure_skip_verify else {}
    return {name: path for name, path in files if path} | unchecked


def _password_settings(sasl: Sasl) -> dict[str, str]:
    return {"sasl.mechanism": sasl.mechanism, "sasl.username": sasl.user, "sasl.password": str.__str__(sasl.password)}


def _gssapi_settings(sasl: Sasl) -> dict[str, str]:
    found = sasl.gssapi or Gssapi()
    if found.auth_type != "keytab":
        raise OptionError(
            "sasl-gssapi-auth-type", "Kafka's client logs in to Kerberos with a keytab only: give keytab, and its path"
        )
    return {
        "sasl.mechanism": sasl.mechanism,
        "sasl.kerberos.service.name": found.service_name,
        "sasl.kerberos.principal": f"{found.user}@{found.realm}",
        "sasl.kerberos.keytab": found.keytab_path,
        _KERBEROS_CONFIG: found.kerberos_config_path,
    }


def _oauth_settings(sasl: Sasl) -> dict[str, str]:
    found = sasl.oauth
    assert found is not None
    if found.grant_type != "client_credentials":
        raise OptionError(
            "sasl-oauth-grant-type", f"Kafka's client knows client_credentials only, not {found.grant_type!r}"
        )
    token_url, secret = str.__str__(found.token_url), str.__str__(found.client_secret)
    if found.audience:
        request = {
            "url": token_url,
            "id": found.client_id,
            "secret": secret,
            "scope": " ".join(found.scopes),
            "audience": found.audience,
        }
        return {"sasl.mechanism": sasl.mechanism, _TOKEN_REQUEST: json.dumps(request)}
    return {
        "sasl.mechanism": sasl.mechanism,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": found.client_id,
        "sasl.oauthbearer.client.secret": secret,
        "sasl.oauthbearer.token.endpoint.url": token_url,
        **({"sasl.oauthbearer.scope": " ".join(found.scopes)} if found.scopes else {}),
    }


_SASL_SETTINGS: Final[Mapping[str, Callable[[Sasl], dict[str, str]]]] = {
    "PLAIN": _password_settings,
    "SCRAM-SHA-256": _password_settings,
    "SCRAM-SHA-512": _password_settings,
    "GSSAPI": _gssapi_settings,
    "OAUTHBEARER": _oauth_settings,
}


def _token(request: Mapping[str, str]) -> tuple[str, float]:
    """A token for an audience, which librdkafka cannot ask for, and the time when it expires."""
    form = {"grant_type": "client_credentials", "scope": request["scope"], "audience": request["audience"]}
    proof = base64.b64encode(f"{request['id']}:{request['secret']}".encode()).decode()
    asked = urllib.request.Request(
        request["url"],
        urllib.parse.urlencode({name: value for name, value in form.items() if value}).encode(),
        {"Authorization": f"Basic {proof}", "Accept": "application/json"},
    )
    with urllib.request.urlopen(asked, timeout=_TOKEN_SECONDS) as answer:
        found = json.load(answer)
    return found["access_token"], time.time() + float(found.get("expires_in", 300))
