"""TiCDC's parameters for TLS and SASL in librdkafka's words."""

from __future__ import annotations

import os

import pytest

from integration.tokens import token_server
from tidewire.errors import BrokerError, OptionError
from tidewire.kafka.client import KafkaClient
from tidewire.kafka.settings import Security, configured

KERBEROS = {
    "sasl-mechanism": "GSSAPI",
    "sasl-gssapi-auth-type": "keytab",
    "sasl-gssapi-keytab-path": "/etc/reader.keytab",
    "sasl-gssapi-kerberos-config-path": "/etc/krb5.conf",
    "sasl-gssapi-service-name": "kafka",
    "sasl-gssapi-user": "reader",
    "sasl-gssapi-realm": "EXAMPLE.COM",
    "sasl-gssapi-disable-pafxfast": "true",
}
OAUTH = {
    "sasl-mechanism": "oauthbearer",
    "sasl-oauth-client-id": "me",
    "sasl-oauth-client-secret": "aHVzaA==",
    "sasl-oauth-token-url": "https://auth.example.com/token",
}


def settings(parameters: dict[str, str]) -> dict[str, str]:
    return Security.parse(parameters).settings(["a:1", "b:2"])


def test_nothing_is_needed_by_default() -> None:
    assert settings({}) == {"bootstrap.servers": "a:1,b:2", "security.protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("parameters", "protocol"),
    [
        ({"enable-tls": "true"}, "SSL"),
        ({"enable-tls": "1", "ca": "x.pem"}, "SSL"),
        ({"ca": "x.pem"}, "SSL"),
        ({"enable-tls": "false"}, "PLAINTEXT"),
        ({"insecure-skip-verify": "true"}, "PLAINTEXT"),
        ({"sasl-user": "u", "sasl-password": "p"}, "SASL_PLAINTEXT"),
        ({"sasl-user": "u", "sasl-password": "p", "enable-tls": "T"}, "SASL_SSL"),
        (KERBEROS, "SASL_PLAINTEXT"),
        (OAUTH | {"ca": "x.pem"}, "SASL_SSL"),
    ],
)
def test_the_security_protocol_follows(parameters: dict[str, str], protocol: str) -> None:
    assert settings(parameters)["security.protocol"] == protocol


def test_tls() -> None:
    found = settings({"ca": "ca.pem", "cert": "c.pem", "key": "k.pem", "insecure-skip-verify": "true"})

    assert found["ssl.ca.location"] == "ca.pem"
    assert (found["ssl.certificate.location"], found["ssl.key.location"]) == ("c.pem", "k.pem")
    assert found["enable.ssl.certificate.verification"] == "false"
    assert "enable.ssl.certificate.verification" not in settings({"enable-tls": "true"})


@pytest.mark.parametrize("mechanism", ["", "plain", "SCRAM-SHA-256", "scram-sha-512"])
def test_users_with_passwords(mechanism: str) -> None:
    found = settings({"sasl-mechanism": mechanism, "sasl-user": "u", "sasl-password": "p"})

    assert found["sasl.mechanism"] == (mechanism or "plain").upper()
    assert (found["sasl.username"], found["sasl.password"]) == ("u", "p")


def test_kerberos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CONFIG", "/elsewhere")
    found = settings(KERBEROS)
    given = configured(found)

    assert found["sasl.mechanism"] == "GSSAPI"
    assert found["sasl.kerberos.service.name"] == "kafka"
    assert found["sasl.kerberos.principal"] == "reader@EXAMPLE.COM"
    assert found["sasl.kerberos.keytab"] == "/etc/reader.keytab"
    assert not any(name.startswith("tidewire") for name in given)
    assert os.environ["KRB5_CONFIG"] == "/etc/krb5.conf"


def test_a_client_without_kerberos_says_what_to_install() -> None:
    with pytest.raises(BrokerError, match=r"built without Kerberos.*--no-binary confluent-kafka") as refused:
        KafkaClient(settings(KERBEROS))

    assert not refused.value.transient


def test_tokens() -> None:
    found = settings(OAUTH | {"sasl-oauth-scopes": "read,write admin"})

    assert found["sasl.oauthbearer.method"] == "oidc"
    assert (found["sasl.oauthbearer.client.id"], found["sasl.oauthbearer.client.secret"]) == ("me", "hush")
    assert found["sasl.oauthbearer.token.endpoint.url"] == "https://auth.example.com/token"
    assert found["sasl.oauthbearer.scope"] == "read write admin"
    assert "sasl.oauthbearer.scope" not in settings(OAUTH)


def test_an_audience_is_asked_for_with_the_token() -> None:
    with token_server() as server:
        given = {"sasl-oauth-token-url": server.url, "sasl-oauth-audience": "brokers", "sasl-oauth-scopes": "read"}
        found = configured(settings(OAUTH | given))
        token, _ = found["oauth_cb"]("")

    assert token.count(".") == 2
    ((login, form),) = server.asked
    assert login == "Basic bWU6aHVzaA=="
    assert form == {"grant_type": ["client_credentials"], "scope": ["read"], "audience": ["brokers"]}
    assert "sasl.oauthbearer.method" not in found


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"enable-tls": "maybe"}, "enable-tls is true or false, not 'maybe'"),
        ({"enable-tls": "false", "ca": "x.pem"}, "enable-tls is false, but ca are given"),
        ({"cert": "x.pem"}, "cert and key belong together"),
        ({"sasl-mechanism": "handshake"}, "sasl-mechanism is plain, scram-sha-256, scram-sha-512, gssapi, oauthbearer"),
        ({"sasl-mechanism": "plain"}, "sasl-mechanism plain needs sasl-user and sasl-password"),
        ({"sasl-user": "u"}, "sasl-mechanism plain needs sasl-user and sasl-password"),
        ({"sasl-mechanism": "gssapi"}, "sasl-gssapi-auth-type is user or keytab, not ''"),
        (KERBEROS | {"sasl-gssapi-realm": ""}, "sasl-mechanism gssapi needs sasl-gssapi-realm"),
        (KERBEROS | {"sasl-gssapi-keytab-path": ""}, "sasl-mechanism gssapi needs sasl-gssapi-keytab-path"),
        (KERBEROS | {"sasl-gssapi-auth-type": "user", "sasl-gssapi-password": "p"}, "with a keytab only"),
        ({"sasl-mechanism": "oauthbearer"}, "needs sasl-oauth-client-id, sasl-oauth-client-secret, sasl-oauth-token"),
        (OAUTH | {"sasl-oauth-client-secret": "?"}, "sasl-oauth-client-secret must be Base64"),
        (OAUTH | {"sasl-oauth-client-secret": "é"}, "sasl-oauth-client-secret must be Base64"),
        (OAUTH | {"sasl-oauth-grant-type": "password"}, "knows client_credentials only"),
        (OAUTH | {"sasl-mechanism": "plain"}, "need sasl-mechanism oauthbearer"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_reason(parameters: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError) as refused:
        settings(parameters)

    assert reason in str(refused.value)


def test_secrets_are_not_printed() -> None:
    security = Security.parse({"sasl-user": "u", "sasl-password": "hush-hush"})

    assert "hush-hush" not in repr(security) + repr(Security.parse(OAUTH))
