"""Prompts in front of texts. There are none unless they are given, as in the paper; and a key that no task of the suite
could use is an error, since a prompt that is silently left out gives other numbers than it says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from mteb.types import PromptType

KINDS = (PromptType.query.value, PromptType.document.value)


class PromptError(ValueError):
    """A prompt has a key that no task of the suite uses. The message lists the valid ones."""


class Prompts:
    """Which text stands in front of the texts of a task.

    Keys are, the first that is given winning: ``<task>-query``, ``<task>``, ``<type of task>-query``,
    ``<type of task>``, ``query`` (the same with ``document``). Texts that are neither take the task's or its type's.

    Args:
        texts: key to prompt, put directly in front of a text.
        tasks: (name, type) of every task of the suite.

    Raises:
        PromptError: if a key is none of these.
    """

    def __init__(self, texts: Mapping[str, str] | None = None, tasks: Iterable[tuple[str, str]] = ()) -> None:
        self.texts = dict(texts or {})
        names = dict.fromkeys(name for task in tasks for name in task)
        valid = [*KINDS, *(key for name in names for key in (name, *(f"{name}-{kind}" for kind in KINDS)))]
        unknown = [key for key in self.texts if key not in valid]
        if unknown:
            shown = ", ".join(valid[:60]) + (", ..." if len(valid) > 60 else "")
            raise PromptError(f"no task uses the prompt {', '.join(map(repr, unknown))}; valid keys: {shown}")

    @property
    def digest(self) -> str | None:
        """Names these prompts in the place of results; None where there are none."""
        if not self.texts:
            return None
        return hashlib.sha256(json.dumps(self.texts, sort_keys=True).encode()).hexdigest()[:12]

    def of(self, metadata: Any, kind: PromptType | None) -> str:
        """The prompt of the queries or documents of a task; empty where there is none."""
        if not self.texts:
            return ""
        asked = None if kind is None else PromptType(kind).value
        keys = [
            key for name in (metadata.name, metadata.type) for key in ((f"{name}-{asked}",) if asked else ()) + (name,)
        ]
        return next((self.texts[key] for key in [*keys, *([asked] if asked else [])] if key in self.texts), "")
