"""`PoolingConfig`: one pooling strategy, as it stands in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

Kind = Literal["cls", "multi_cls", "mean", "mean_at_k", "latent_attention", "landmark"]
Overflow = Literal["cut", "budget"]
Granularity = int | tuple[int, ...] | Literal["sentence"]

KINDS: tuple[str, ...] = get_args(Kind)
OVERFLOWS: tuple[str, ...] = get_args(Overflow)

# What each kind may say about itself, with the value it has when nothing is said.
_OPTIONS: dict[str, dict[str, Any]] = {
    "cls": {},
    "multi_cls": {"every": 128},
    "mean": {},
    "mean_at_k": {"k": 64},
    "latent_attention": {"num_latents": 64, "latent_heads": None},
    "landmark": {"granularity": 32, "overflow": "cut"},
}


class PoolingConfigError(ValueError):
    """A pooling description that cannot be used. ``key`` names the offending key, or is None."""

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class PoolingConfig:
    """A pooling strategy. Two equal configurations have equal dictionaries, see `to_dict`."""

    kind: Kind
    """Which layout and which reduction."""
    granularity: Granularity | None = None
    """landmark: text tokens in a chunk (32), several sizes (one is drawn for each text), or "sentence"."""
    every: int | None = None
    """multi_cls: text tokens between two CLS (128)."""
    k: int | None = None
    """mean_at_k: every k-th position is pooled, from position 0 (64)."""
    num_latents: int | None = None
    """latent_attention: number of latent vectors (64)."""
    latent_heads: int | None = None
    """latent_attention: attention heads; None means one for each 64 dimensions."""
    overflow: Overflow = "cut"
    """landmark: "cut" inserts, then cuts to the maximum length; "budget" cuts the text first, so that the last token
    is always a landmark."""

    def __post_init__(self) -> None:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in _checked(given).items():
            object.__setattr__(self, name, value)

    @property
    def is_variable(self) -> bool:
        """Whether there are several chunk sizes to choose from."""
        return isinstance(self.granularity, tuple)

    def with_granularity(self, granularity: int | tuple[int, ...] | list[int] | str) -> PoolingConfig:
        """The same landmark pooling with other chunks.

        Raises:
            PoolingConfigError: if the kind has no granularity, or the value is no valid one.
        """
        if self.kind != "landmark":
            raise PoolingConfigError(_not_applicable("granularity", self.kind), "granularity")
        return replace(self, granularity=_checked_granularity(granularity))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values of the keys that apply to this kind. The default overflow is left out."""
        values: dict[str, Any] = {"kind": self.kind}
        for name in _OPTIONS[self.kind]:
            value = getattr(self, name)
            if value is None or (name == "overflow" and value == "cut"):
                continue
            values[name] = list(value) if isinstance(value, tuple) else value
        return values

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any] | object) -> PoolingConfig:
        """Read what `to_dict` wrote, or what a user wrote. A key that is left out (or null) has its default.

        Raises:
            PoolingConfigError: with ``key``, naming the valid keys or values.
        """
        if isinstance(mapping, PoolingConfig):
            return mapping
        if not isinstance(mapping, Mapping):
            raise PoolingConfigError(f"a pooling is a mapping such as {{kind: landmark}}, not {mapping!r}")
        if "kind" not in mapping:
            raise PoolingConfigError(f"kind: missing; valid: {', '.join(KINDS)}", "kind")
        return cls(**_checked(mapping))


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Every value that applies to the kind, checked, with the defaults of those not given (or None)."""
    kind = given["kind"]
    if not isinstance(kind, str) or kind not in KINDS:
        raise PoolingConfigError(f"kind: {kind!r} is not a pooling kind; valid: {', '.join(KINDS)}", "kind")
    values = {"kind": kind, **_OPTIONS[kind]}
    names = {field.name for field in fields(PoolingConfig)}
    for name, value in given.items():
        if name not in names:
            valid = ", ".join(["kind", *_OPTIONS[kind]])
            raise PoolingConfigError(f"{name}: not a key of the pooling kind {kind!r}; valid: {valid}", str(name))
        if name == "kind" or value is None or (name == "overflow" and value == "cut"):
            continue
        if name not in _OPTIONS[kind]:
            raise PoolingConfigError(_not_applicable(name, kind), name)
        values[name] = _checked_option(name, value)
    return values


def _checked_option(name: str, value: object) -> object:
    if name == "granularity":
        return _checked_granularity(value)
    if name == "overflow":
        if value not in OVERFLOWS:
            raise PoolingConfigError(f"overflow: {value!r}; valid: {', '.join(OVERFLOWS)}", "overflow")
    elif not _is_size(value):
        raise PoolingConfigError(f"{name}: {value!r} is not an integer of at least 1", name)
    return value


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _not_applicable(name: str, kind: str) -> str:
    valid = ", ".join(["kind", *_OPTIONS[kind]])
    return f"{name}: does not apply to the pooling kind {kind!r}; its keys: {valid}"


def _checked_granularity(value: object) -> Granularity:
    """One size, several (ascending, each once; one alone is that size), or "sentence"."""
    if value == "sentence":
        return "sentence"
    if isinstance(value, int) and _is_size(value):
        return value
    if isinstance(value, (list, tuple)) and value and all(_is_size(size) for size in value):
        sizes = tuple(sorted(value))
        if len(set(sizes)) == len(sizes):
            return sizes if len(sizes) > 1 else sizes[0]
    raise PoolingConfigError(
        f"granularity: {value!r}; valid: an integer of at least 1, a list of different such integers, or 'sentence'",
        "granularity",
    )
