"""A configuration as a model card shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lmk_train.config.pretraining import AnyConfig


def for_card(config: AnyConfig) -> dict[str, Any]:
    """The configuration without the runtime, in plain values. Of absolute paths only the names: cards are published.

    Example:
        >>> from lmk_train.config import TrainConfig
        >>> config = TrainConfig.model_validate(
        ...     {
        ...         "model": {"path": "/home/me/models/tiny"},
        ...         "pooling": {"kind": "cls"},
        ...         "data": {"train": ["/home/me/rows.jsonl"]},
        ...         "optim": {"steps": 100, "batch_size": 32, "learning_rate": "2e-5"},
        ...     }
        ... )
        >>> shown = for_card(config)
        >>> shown["model"]["path"], shown["data"]["train"], "runtime" in shown
        ('tiny', ['rows.jsonl'], False)
    """
    return _named(config.model_dump(mode="json", exclude={"runtime"}))


def _named(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _named(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_named(one) for one in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value
