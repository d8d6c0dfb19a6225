"""The file a sync can be described in: sources, target, options, and rules about tables and DDL."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidewire.errors import OptionError
from tidewire.sync.catalog_settings import CatalogSettings
from tidewire.sync.policies import ChangeKind, DdlPolicy
from tidewire.sync.rules import OWN, Mask, Rules, TableRule, wanted_by
from tidewire.sync.state import OnBad
from tidewire.sync.table_options import TIMES, PartitionBy, TableOptions, repeated
from tidewire.sync.toml_section import Secrets, Section

FORMATS: Final = ("iceberg", "delta")
MODES: Final = ("mirror", "history", "scd2")
FORMAT_VERSIONS: Final = ("2", "3")

_TEMPLATE = re.compile(r"(?:[^.{}]|\{schema\}|\{table\})+\.(?:[^.{}]|\{schema\}|\{table\})+")
_ALIASES: Mapping[str, ChangeKind] = {"truncate": ChangeKind.TRUNCATE_TABLE}
_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class SyncConfig:
    """A sync as its file describes it; what the file does not say is ``None`` or empty.

    ``parameters`` are those of the source beside its URI, ``catalogs`` are by their names, and ``catalog`` is the one
    that the target uses.
    What may hold secrets is not in the ``repr``, and :attr:`secrets` can hide them elsewhere.
    """

    source: str | None = field(default=None, repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    protocol: str | None = None
    option: Mapping[str, str] = field(default_factory=dict, repr=False)
    target: str | None = field(default=None, repr=False)
    target_format: str | None = None
    format_version: int | None = None
    catalog: str | None = None
    catalogs: Mapping[str, CatalogSettings] = field(default_factory=dict)
    mode: str | None = None
    on_bad_message: str | None = None
    keep_rejected_bytes: bool | None = None
    once: bool | None = None
    until: int | None = None
    parallel: int | None = None
    atomic: bool | None = None
    maintain_every: str | None = None
    patience: str | None = None
    max_offsets_per_batch: int | None = None
    master: str | None = None
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    rules: Rules = field(default_factory=Rules)
    secrets: Secrets = field(default_factory=Secrets, repr=False)

    staging: str | None = field(default=None, repr=False)

    def catalog_named(self, name: str | None) -> CatalogSettings | None:
        """The catalog of a name; without a name the only one there is. ``OptionError`` if that is not clear."""
        if name is None and len(self.catalogs) > 1:
            raise OptionError("catalog", f"name one of {', '.join(sorted(self.catalogs))}")
        if name is None:
            return next(iter(self.catalogs.values()), None)
        if name not in self.catalogs:
            known = ", ".join(sorted(self.catalogs)) or "none"
            raise OptionError("catalog", f"--config describes no [catalog.{name}]; the catalogs in it: {known}")
        return self.catalogs[name]


def read_config(text: str, environment: Mapping[str, str], protocols: Collection[str]) -> SyncConfig:
    """The sync that a TOML text describes; :class:`OptionError` with the path of what is wrong.

    >>> read_config('protocol = "avro"', {}, ["avro"]).protocol
    'avro'
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OptionError("config", f"not TOML: {error}") from None
    return config_of(document, environment, protocols)


def config_of(
    document: Mapping[str, Any], environment: Mapping[str, str] | None, protocols: Collection[str]
) -> SyncConfig:
    """The sync that such a file's content describes. Without an ``environment`` no variables are filled in."""
    secrets = Secrets()
    names = {name.replace("_", "-"): value for name, value in document.items()}
    try:
        return _config(Section(names, "", environment, secrets), protocols, secrets)
    except OptionError as error:
        raise OptionError(error.name, secrets.hide(error.reason)) from None


def _format_version(section: Section) -> int | None:
    if isinstance(section.look("format-version"), int):
        found = section.number("format-version")
        if str(found) not in FORMAT_VERSIONS:
            raise OptionError(section.at("format-version"), f"{found} is not one of {', '.join(FORMAT_VERSIONS)}")
        return found
    word = section.word("format-version", FORMAT_VERSIONS)
    return None if word is None else int(word)


def _config(top: Section, protocols: Collection[str], secrets: Secrets) -> SyncConfig:
    source, parameters = _source(top)
    target, format_, catalog, staging = _target(top)
    config = SyncConfig(
        source=source,
        parameters=parameters,
        protocol=top.word("protocol", protocols),
        option=top.section("option").settings(),
        target=target,
        target_format=format_,
        format_version=_format_version(top),
        catalog=catalog,
        catalogs={name: CatalogSettings.read(name, section) for name, section in top.section("catalog").tables()},
        staging=staging,
        mode=top.word("mode", MODES),
        on_bad_message=top.word("on-bad-message", list(OnBad)),
        keep_rejected_bytes=top.flag("keep-rejected-bytes"),
        once=top.flag("once"),
        until=top.number("until"),
        parallel=top.number("parallel", 1),
        atomic=top.flag("atomic"),
        maintain_every=top.text("maintain-every"),
        patience=top.text("patience"),
        max_offsets_per_batch=top.number("max-offsets-per-batch", 1),
        master=top.text("master"),
        spark=_spark(top),
        rules=_rules(top),
        secrets=secrets,
    )
    top.finish()
    return config


def _source(top: Section) -> tuple[str | None, dict[str, str]]:
    if not isinstance(top.look("source"), Mapping):
        return top.text("source"), {}
    section = top.section("source")
    return section.text("uri"), section.settings()


def _target(top: Section) -> tuple[str | None, str | None, str | None, str | None]:
    """The target's URI, its format, the name of its catalog, and where files are staged."""
    format_ = top.word("target-format", FORMATS)
    if not isinstance(top.look("target"), Mapping):
        return top.text("target"), format_, None, top.text("staging")
    section = top.section("target")
    uri, given = section.text("uri"), section.word("format", FORMATS)
    found = uri, given or format_, section.text("catalog"), section.text("staging") or top.text("staging")
    section.finish()
    return found


def _spark(top: Section) -> dict[str, str]:
    pairs = dict(_pair(text, f"spark-settings[{n}]") for n, text in enumerate(top.texts("spark-settings")))
    settings = top.section("spark").settings()
    return pairs | {name if name.startswith("spark.") else f"spark.{name}": text for name, text in settings.items()}


def _pair(text: str, path: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise OptionError(path, "not of the form NAME=VALUE")
    return name, value


# Rules


def _rules(top: Section) -> Rules:
    mask = top.section("mask")
    salt = mask.text("salt") or ""
    mask.finish()
    include, exclude = _patterns(top, "include"), _patterns(top, "exclude")
    for name, patterns in (("include", include), ("exclude", exclude)):
        for number, pattern in enumerate(patterns):
            if pattern.startswith("!"):
                raise OptionError(f"{name}[{number}]", f"{pattern!r}: put it into exclude, without the !")
    follow = (*(include or (("*.*",) if exclude else ())), *(f"!{pattern}" for pattern in exclude))
    policies, given = _policies(top.section("ddl")), top.look("tables")
    if isinstance(given, list | tuple) and any(isinstance(each, Mapping) for each in given):
        return Rules(follow, tuple(map(_rule, top.sections("tables"))), policies, salt)
    patterns = _patterns(top, "tables")
    if patterns and follow:
        raise OptionError("tables", "give either include and exclude, or this list of rules")
    return Rules(patterns or follow, (), policies, salt)


def _rule(section: Section) -> TableRule:
    match = _patterns(section, "match")
    if not match:
        raise OptionError(section.at("match"), "the rule must name tables: give patterns such as shop.*")
    if all(pattern.startswith("!") for pattern in match):
        raise OptionError(section.at("match"), "has exclusions only; put *.* first")
    rule = TableRule(
        section.path,
        match,
        _template(section),
        section.word("mode", MODES),
        _columns(section),
        section.section("mask").words(lambda name, path: name, Mask),
        _policies(section.section("ddl")),
        _options(section),
    )
    section.finish()
    return rule


def _options(section: Section) -> TableOptions:
    version, sort = _format_version(section), section.texts("sort")
    partition = tuple(PartitionBy.parse(text, section.at("partition")) for text in section.texts("partition"))
    for name in repeated([f"{each.column} {'time' if each.kind in TIMES else each.kind}" for each in partition]):
        raise OptionError(section.at("partition"), f"{name.rpartition(' ')[0]} is given twice with the same transform")
    for name in repeated(sort):
        raise OptionError(section.at("sort"), f"{name} is given twice")
    return TableOptions(version, partition, sort)


def _patterns(section: Section, name: str) -> tuple[str, ...]:
    patterns = section.texts(name)
    for number, pattern in enumerate(patterns):
        try:
            wanted_by([pattern])
        except OptionError as error:
            raise OptionError(f"{section.at(name)}[{number}]", error.reason) from None
    return patterns


def _columns(section: Section) -> tuple[str, ...]:
    columns = section.texts("columns")
    for number, pattern in enumerate(columns):
        if not pattern.removeprefix("!"):
            raise OptionError(f"{section.at('columns')}[{number}]", "is empty")
    if columns and all(pattern.startswith("!") for pattern in columns):
        raise OptionError(section.at("columns"), 'has exclusions only; put "*" first')
    return columns


def _template(section: Section) -> str | None:
    template = section.text("to")
    if template is None:
        return None
    if not _TEMPLATE.fullmatch(template):
        raise OptionError(
            section.at("to"), f"{template!r} is not of the form schema.table with {{schema}} and {{table}}"
        )
    if template.lower().startswith(OWN):
        raise OptionError(section.at("to"), f"database names that begin with {OWN} are reserved for tidewire")
    return template


def _policies(section: Section) -> dict[ChangeKind, DdlPolicy]:
    default = section.word(_DEFAULT, list(DdlPolicy))
    given = {ChangeKind(kind): policy for kind, policy in section.words(_kind, DdlPolicy).items()}
    if given.get(ChangeKind.CHANGE_KEY) is DdlPolicy.IGNORE:
        raise OptionError(
            section.at(ChangeKind.CHANGE_KEY), "rows are told apart by their key, so it cannot be ignored"
        )
    if default is None:
        return given
    everywhere = dict.fromkeys(ChangeKind, DdlPolicy(default))
    if default == DdlPolicy.IGNORE:
        everywhere[ChangeKind.CHANGE_KEY] = DdlPolicy.EVOLVE
    return everywhere | given


def _kind(name: str, path: str) -> str:
    kind = _ALIASES.get(name, name)
    if kind not in list(ChangeKind):
        raise OptionError(path, f"not a kind of DDL; known are {_DEFAULT}, {', '.join(ChangeKind)}")
    return kind
