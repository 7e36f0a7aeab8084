"""Base of all settings: they are checked, and they convert to plain data and back."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from eigenformer.nearest import unknown

T = TypeVar("T", bound="Settings")


class ConfigError(ValueError):
    """Raised for a setting that is unknown, has the wrong type or has an impossible value."""


@dataclass(frozen=True)
class Settings:
    """Base class of all settings: checked when created, convertible to and from plain data."""

    def __new__(cls: type[T], *values: Any, **named: Any) -> T:
        _reject_unknown(named, [f.name for f in dataclasses.fields(cls)])
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, annotation in setting_types(type(self)).items():
            object.__setattr__(self, name, _checked(getattr(self, name), annotation, name))
        self.check()

    def check(self) -> None:
        """Raises a :class:`ConfigError` if a value, or a combination of values, is impossible."""

    @classmethod
    def from_dict(cls: type[T], values: Mapping[str, Any], path: str = "") -> T:
        """Builds the settings from plain data; error messages call them ``path``."""
        if not isinstance(values, Mapping):
            raise ConfigError(f"{path or cls.__name__}: expected settings, got {values!r}")
        annotations = setting_types(cls)
        _reject_unknown(values, annotations, path)
        required = {f.name for f in dataclasses.fields(cls) if _is_required(f)}
        for key in sorted(required - set(values)):
            raise ConfigError(f"{_join(path, key)}: missing, and it has no default")
        checked = {
            key: _checked(value, annotations[key], _join(path, key))
            for key, value in values.items()
        }
        try:
            return cls(**checked)
        except ConfigError as error:
            raise ConfigError(_join(path, str(error))) from None

    @classmethod
    def check_part(cls, values: Mapping[str, Any], path: str = "") -> None:
        """Raises an error if an incomplete set of settings has an unknown name or invalid value."""
        if not isinstance(values, Mapping):
            raise ConfigError(f"{path or cls.__name__}: expected settings, got {values!r}")
        annotations = setting_types(cls)
        _reject_unknown(values, annotations, path)
        for key, value in values.items():
            members = alternatives(annotations[key])
            if len(members) == 1 and _are_settings(members):
                members[0].check_part(value, _join(path, key))
            elif _are_settings(members) and isinstance(value, Mapping):
                _check_union_part(value, members, _join(path, key))
            else:
                _checked(value, annotations[key], _join(path, key))

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as plain data; :meth:`from_dict` is the inverse."""
        return _plain(self)

    def replace(self: T, **changes: Any) -> T:
        """Returns a copy with other values. The error for an unknown name suggests the nearest."""
        return type(self).from_dict({**self.to_dict(), **changes})


def setting_types(cls: type[Settings]) -> dict[str, Any]:
    """Returns the types of the settings by name."""
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merges ``changes`` into ``base``, section by section.

    A section with another ``kind`` replaces the old section as a whole.
    """
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        if (
            isinstance(value, Mapping)
            and isinstance(old, Mapping)
            and value.get("kind", old.get("kind")) == old.get("kind")
        ):
            result[key] = merge(old, value)
        else:
            result[key] = value
    return result


def _reject_unknown(values: Mapping[str, Any], known: Iterable[str], path: str = "") -> None:
    for key in values:
        if key not in known:
            raise ConfigError(unknown(_join(path, str(key)), str(key), known))


def _is_required(f: dataclasses.Field[Any]) -> bool:
    return f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """Returns the types a value may have, without None."""
    union = get_origin(annotation) in (Union, types.UnionType)
    return _without_none(get_args(annotation)) if union else (annotation,)


def kinds_of(members: Iterable[type[Settings]]) -> dict[str, type[Settings]]:
    """Returns the members of a union of settings by kind; a member may have several kinds."""
    return {kind: m for m in members for kind in get_args(setting_types(m)["kind"])}


def _check_union_part(
    values: Mapping[str, Any], members: tuple[type[Settings], ...], path: str
) -> None:
    """Raises an error if incomplete settings do not fit the union.

    They must fit the member of their kind or, without a kind, any member that has all their names.
    """
    known = {name for member in members for name in setting_types(member)}
    _reject_unknown(values, known, path)
    if "kind" in values:
        kinds = kinds_of(members)
        kind = str(values["kind"])
        if kind not in kinds:
            raise ConfigError(unknown(f"{path}.kind: '{kind}'", kind, kinds))
        _reject_foreign(values, kinds[kind], members, path)
        kinds[kind].check_part(values, path)
        return None
    fitting = [m for m in members if all(name in setting_types(m) for name in values)]
    errors = []
    for member in fitting:
        try:
            return member.check_part(values, path)
        except ConfigError as error:
            errors.append(error)
    if errors:
        raise errors[0]
    raise ConfigError(f"{path}: {', '.join(values)} cannot be combined")


def _without_none(members: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(m for m in members if m is not type(None))


def _are_settings(members: tuple[Any, ...]) -> bool:
    return all(isinstance(m, type) and issubclass(m, Settings) for m in members)


def require_positive(settings: Settings, *names: str) -> None:
    """Raises an error unless these settings are finite and greater than 0."""
    for name in names:
        if not 0 < getattr(settings, name) < math.inf:
            raise ConfigError(f"{name}: must be positive, got {getattr(settings, name)}")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _checked(value: Any, annotation: Any, path: str) -> Any:
    """Converts ``value`` to the type ``annotation``, or raises an error that names ``path``."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    origin = get_origin(annotation)
    if origin is Literal:
        if type(value) is int and str(value) in get_args(annotation):
            value = str(value)  # YAML reads the precision 32 as a number
        if value not in get_args(annotation):
            raise ConfigError(unknown(f"{path}: '{value}'", str(value), get_args(annotation)))
        return value
    if origin in (Union, types.UnionType):
        return _checked_union(value, get_args(annotation), path)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{path}: expected a list, got {value!r}")
        return tuple(
            _checked(v, get_args(annotation)[0], f"{path}[{i}]") for i, v in enumerate(value)
        )
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return value if isinstance(value, annotation) else annotation.from_dict(value, path)
    if annotation is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    # bool is a subclass of int, but True is not a valid number of layers.
    if type(value) is not annotation:
        raise ConfigError(f"{path}: expected {annotation.__name__}, got {value!r}")
    return value


def _checked_union(value: Any, members: tuple[Any, ...], path: str) -> Any:
    if value is None and type(None) in members:
        return None
    members = _without_none(members)
    if len(members) == 1:
        return _checked(value, members[0], path)
    if isinstance(value, members):
        return value
    # In a union of settings, 'kind' selects the member.
    kinds = kinds_of(members)
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if kind is None:
        raise ConfigError(
            f"{path}: expected settings with a 'kind' ({', '.join(kinds)}), got {value!r}"
        )
    if str(kind) not in kinds:
        raise ConfigError(unknown(f"{path}.kind: '{kind}'", str(kind), kinds))
    member = kinds[str(kind)]
    _reject_foreign(value, member, members, path)
    return member.from_dict(value, path)


def _reject_foreign(
    values: Mapping[str, Any], member: type[Settings], members: Iterable[type[Settings]], path: str
) -> None:
    """Raises an error for a setting that only other members of a union have, and names them."""
    for name in values:
        owners = [other for other in members if name in setting_types(other)]
        if owners and member not in owners:
            kinds = " or ".join(kinds_of(owners))
            raise ConfigError(
                f"{_join(path, name)}: a setting of kind {kinds}, but {path}.kind is "
                f"{values['kind']}"
            )
