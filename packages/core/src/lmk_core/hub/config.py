"""``lmk_config.json``: how a saved model lays out and pools."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmk_core.pooling.config import PoolingConfig, PoolingConfigError
from lmk_core.version import __version__

CONFIG_FILE = "lmk_config.json"
REDUCTION_FILE = "reduction.safetensors"


class SavedModelError(ValueError):
    """A folder that cannot be written or read as a saved model."""


@dataclass(frozen=True)
class SavedConfig:
    """What ``lmk_config.json`` says."""

    pooling: PoolingConfig
    max_length: int
    sentence_splitter: str | None = None
    """As `splitter_to_text` gives it; None if the model has none."""

    @classmethod
    def read(cls, path: str | Path) -> SavedConfig:
        """Read the file.

        Raises:
            SavedModelError: if it is not what `write` writes.
        """
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
            pooling = PoolingConfig.from_dict(values["pooling"])
            max_length = values["max_length"]
            splitter = values.get("sentence_splitter")
        except (json.JSONDecodeError, KeyError, TypeError, PoolingConfigError) as error:
            raise SavedModelError(
                f"{path}: {type(error).__name__}: {error}; expected the keys pooling, max_length"
            ) from error
        if not isinstance(max_length, int) or max_length < 2:
            raise SavedModelError(f"{path}: max_length: {max_length!r}; expected an integer of at least 2")
        if splitter is not None and not isinstance(splitter, str):
            raise SavedModelError(f"{path}: sentence_splitter: {splitter!r}; expected a string")
        return cls(pooling, max_length, splitter)

    def write(self, folder: str | Path) -> None:
        """Write the file into ``folder``, with the version that wrote it."""
        values: dict[str, Any] = {
            "lmk_core": __version__,
            "pooling": self.pooling.to_dict(),
            "max_length": self.max_length,
            "overflow": self.pooling.overflow,
        }
        if self.sentence_splitter is not None:
            values["sentence_splitter"] = self.sentence_splitter
        (Path(folder) / CONFIG_FILE).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
