"""The sync's file: what it can say, where it says what is wrong, and that it never tells a secret."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidewire.errors import OptionError
from tidewire.model import TableName
from tidewire.sync.catalog_settings import CatalogSettings
from tidewire.sync.config import SyncConfig, read_config
from tidewire.sync.policies import ChangeKind, DdlPolicy
from tidewire.sync.rules import Mask
from tidewire.sync.toml_section import Secrets

PROTOCOLS = ("avro", "canal-json")


def read(text: str, **environment: str) -> SyncConfig:
    return read_config(text, environment, PROTOCOLS)


WHOLE = """
protocol = "canal-json"
mode = "history"
on-bad-message = "skip"
once = true
until = 470490294578577416
parallel = 2
master = "local[4]"
include = ["shop.*"]
exclude = ["shop.tmp_*"]

[source]
uri = "kafka://localhost:9092/orders"
consumer-group = "lake"
max-offsets-per-batch = 5000
sasl-password = "${KAFKA_PASSWORD}"

[option]
enable-tidb-extension = true
time-zone = "Asia/Shanghai"

[target]
uri = "s3://${BUCKET}/lake"
format = "iceberg"
catalog = "lake"
staging = "s3://hot/staged"

[catalog.lake]
type = "rest"
oauth2.token = "${TOKEN}"

[catalog.other]
type = "glue"

[spark]
sql.shuffle.partitions = 4
"spark.driver.memory" = "2g"

[mask]
salt = "${SALT}"

[ddl]
default = "lenient"
truncate = "ignore"
rename-table = "freeze"

[[tables]]
match = ["shop.orders", "shop.order_*"]
to = "lake_{schema}.{table}_v1"
mode = "scd2"
columns = ["*", "!secret*"]
mask = { email = "hash", "*_phone" = "redact", note = "drop" }
ddl = { drop-column = "evolve" }

[[tables]]
match = ["*.*"]
"""
ENVIRONMENT = {"KAFKA_PASSWORD": "hush hush", "BUCKET": "bucket-7", "TOKEN": "t0k3n", "SALT": "pepper"}


def test_a_file_can_say_everything() -> None:
    config = read(WHOLE, **ENVIRONMENT)

    assert config.source == "kafka://localhost:9092/orders"
    assert config.parameters == {
        "consumer-group": "lake",
        "max-offsets-per-batch": "5000",
        "sasl-password": "hush hush",
    }
    assert (config.protocol, config.mode, config.on_bad_message) == ("canal-json", "history", "skip")
    assert (config.once, config.until, config.parallel, config.master) == (True, 470490294578577416, 2, "local[4]")
    assert config.option == {"enable-tidb-extension": "true", "time-zone": "Asia/Shanghai"}
    assert (config.target, config.target_format) == ("s3://bucket-7/lake", "iceberg")
    assert (config.catalog, config.staging) == ("lake", "s3://hot/staged")
    assert config.catalog_named("other") == CatalogSettings("other", {"type": "glue"}, {"type": "glue"})
    catalog = config.catalog_named("lake")
    assert catalog is not None
    assert catalog.spark() == {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "rest",
        "spark.sql.catalog.lake.oauth2.token": "t0k3n",
    }
    assert config.spark == {"spark.sql.shuffle.partitions": "4", "spark.driver.memory": "2g"}
    rules = config.rules
    assert rules.wants(TableName("Shop", "orders"))
    assert not rules.wants(TableName("shop", "tmp_1"))
    assert not rules.wants(TableName("test", "orders"))
    orders, other = TableName("shop", "orders"), TableName("shop", "people")
    assert rules.route(orders) == TableName("lake_shop", "orders_v1")
    assert rules.route(other) == other
    assert (rules.mode(orders, "mirror"), rules.mode(other, "mirror")) == ("scd2", "mirror")
    masks = {name: rules.of(orders).of(name) for name in ("Email", "home_phone", "note", "secret_1", "id")}
    assert masks == {
        "Email": Mask.HASH,
        "home_phone": Mask.REDACT,
        "note": Mask.DROP,
        "secret_1": Mask.DROP,
        "id": None,
    }
    assert rules.policy(orders, ChangeKind.DROP_COLUMN) is DdlPolicy.EVOLVE
    assert rules.policy(other, ChangeKind.DROP_COLUMN) is DdlPolicy.LENIENT
    assert rules.policy(other, ChangeKind.TRUNCATE_TABLE) is DdlPolicy.IGNORE
    assert rules.policy(orders, ChangeKind.RENAME_TABLE) is DdlPolicy.FREEZE
    assert rules.salt == "pepper"


def test_an_empty_file_says_nothing() -> None:
    config = read("")

    assert config == SyncConfig()
    assert config.rules.wants(TableName("any", "table"))


def test_the_flags_are_settings_too() -> None:
    config = read(
        'source = "file:topics"\ntarget = "lake"\non_bad_message = "stop"\ntables = ["shop.*", "!shop.t_*"]\n'
    )

    assert (config.source, config.target, config.on_bad_message) == ("file:topics", "lake", "stop")
    assert config.rules.wants(TableName("shop", "a"))
    assert not config.rules.wants(TableName("shop", "t_1"))


TABLE = '[[tables]]\nmatch = ["a.b"]\n'


@pytest.mark.parametrize(
    ("text", "path", "reason"),
    [
        ("speed = 3", "speed", "'speed' is not a setting of a sync; known are"),
        ("protocl = 3", "protocl", "did you mean protocol?"),
        ("protocol = 3", "protocol", "must be a text, not a number"),
        ('protocol = "avra"', "protocol", "must be one of avro, canal-json, not 'avra'"),
        ('mode = "mirrored"', "mode", "must be one of mirror, history, scd2"),
        ('once = "yes"', "once", "must be true or false"),
        ("until = -1", "until", "must be a whole number from 0 on"),
        ("parallel = 0", "parallel", "must be a whole number from 1 on"),
        ("[option]\nx = 1979-05-27", "option.x", "must be a text, not a date"),
        ("[target]\nuri = 'a'\nspeed = 1", "target.speed", "'speed' is not a setting"),
        ("[catalog.a-b]\ntype = 'rest'", "catalog.a-b", "letters, digits and underscores only"),
        ("[catalog]\ntype = 'rest'", "catalog.type", "must be a table, not a text"),
        ("[catalog.a]\nuri = 'http://x'", "catalog.a.type", "must be one of rest, glue, hive, jdbc"),
        ("[catalog.a]\ntype = 'hadoop'", "catalog.a.type", "cannot rename a table"),
        ("spark = 3", "spark", "must be a table, not a number"),
        ("[spark]\nx = '${NOWHERE}'", "spark.x", "there is no environment variable NOWHERE"),
        ("tables = ['shop']", "tables[0]", "not of the form schema.table"),
        ("tables = ['a.b']\ninclude = ['a.*']", "tables", "give either"),
        ("include = ['a.b', '!a.c']", "include[1]", "put it into exclude"),
        ("[[tables]]\nto = 'a.b'", "tables[0].match", "must name tables"),
        ("[[tables]]\nmatch = ['!a.b']", "tables[0].match", "put *.* first"),
        ("[[tables]]\nmatch = ['a.b', 7]", "tables[0].match[1]", "must be a text, not a number"),
        ("[[tables]]\nmatch = ['a.b', 'c']", "tables[0].match[1]", "'c' is not of the form"),
        (f"{TABLE}{TABLE}to = 'lake'", "tables[1].to", "'lake' is not of the form"),
        (f"{TABLE}to = '{{db}}.x'", "tables[0].to", "is not of the form"),
        (f"{TABLE}to = '_tidewire.x'", "tables[0].to", "reserved for tidewire"),
        (f"{TABLE}format-version = 4", "tables[0].format-version", "4 is not one of 2, 3"),
        (f"{TABLE}mode = 'all'", "tables[0].mode", "must be one of"),
        (f"{TABLE}columns = ['!a']", "tables[0].columns", 'put "*" first'),
        (f"{TABLE}columns = ['*', '!']", "tables[0].columns[1]", "is empty"),
        (
            f"{TABLE}{TABLE}{TABLE}mask = {{email = 'hide'}}",
            "tables[2].mask.email",
            "must be one of hash, redact, drop",
        ),
        (f"{TABLE}mask = {{email = 1}}", "tables[0].mask.email", "must be a text"),
        (f"{TABLE}msk = {{}}", "tables[0].msk", "did you mean mask?"),
        (f"{TABLE}ddl = {{drop-columns = 'evolve'}}", "tables[0].ddl.drop-columns", "not a kind of DDL"),
        ("[ddl]\ndrop-column = 'never'", "ddl.drop-column", "must be one of evolve, lenient, freeze, ignore"),
        ("[ddl]\nchange-key = 'ignore'", "ddl.change-key", "cannot be ignored"),
        ("a = ", "config", "not TOML"),
    ],
)
def test_a_mistake_is_named_with_its_path(text: str, path: str, reason: str) -> None:
    with pytest.raises(OptionError) as caught:
        read(text)

    assert caught.value.name == path
    assert reason in caught.value.reason


def test_secrets_are_in_no_repr_and_no_error() -> None:
    config = read(WHOLE, **ENVIRONMENT)

    assert not any(secret in repr(config) for secret in ENVIRONMENT.values())
    hidden = config.secrets.hide("hush hush, hush%20hush, hush+hush, t0k3n, pepper and bucket-7")
    assert hidden == "xxxxx, xxxxx, xxxxx, xxxxx, xxxxx and xxxxx"
    with pytest.raises(OptionError) as caught:
        read('protocol = "${PROTOCOL}"', PROTOCOL="sesame")
    assert "sesame" not in str(caught.value)


def test_passwords_in_uris_are_secrets_too() -> None:
    config = read('source = "kafka://me:hush@localhost:9092/t?sasl-password=mum%26"')

    assert config.secrets.hide("hush mum& mum%26") == "xxxxx xxxxx xxxxx"
    uri = "kafka://localhost:9092/t?sasl-user=reader&sasl-mechanism=PLAIN"
    sasl = read(f'source = "{uri}"\nspark = {{kafka-sasl-config = "jaas!"}}')
    assert sasl.secrets.hide("reader jaas! PLAIN") == "xxxxx xxxxx PLAIN"
    assert Secrets().hide("nothing") == "nothing"
    assert Secrets({"me"}).hide("some of me") == "some of xxxxx"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("kafka.sasl.jaas.config", False),
        ("spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net", False),
        ("spark.hadoop.fs.s3a.secret.key", False),
        ("kafka.sasl.mechanism", True),
        ("spark.sql.shuffle.partitions", True),
    ],
)
def test_a_name_with_dots_is_looked_at_as_a_whole(name: str, told: bool) -> None:
    config = read(f'[spark]\n"{name}" = "value!"')

    assert (config.secrets.hide("value!") == "value!") is told


def test_variables_stand_anywhere_in_a_text_and_can_be_escaped() -> None:
    config = read(
        'master = "spark://${HOST}:${PORT}"\ntarget = "$${HOST}"\nparallel = "${N}"', HOST="h", PORT="7", N="3"
    )

    assert (config.master, config.target, config.parallel) == ("spark://h:7", "${HOST}", 3)


@pytest.mark.parametrize("page", ["reference/sync-config.md", "how-to/sync.md"])
def test_the_examples_in_the_documentation_are_files(page: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / page).read_text()
    examples = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)

    assert examples
    for example in examples:
        read(example, KAFKA_PASSWORD="hush-hush", MASK_SALT="pepper")


def test_the_documentation_names_every_kind_and_policy() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "sync-config.md").read_text()

    assert all(f"`{word}`" in text for words in (ChangeKind, DdlPolicy, Mask) for word in words)
