"""Runs as a store has them, in the shape of MLflow's own."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote

TROUBLE = (OSError, ValueError, LookupError, sqlite3.Error)
"""What may go wrong where a store is read without MLflow, beside ``NeedsMlflow``."""


class NeedsMlflow(BaseException):
    """There is something to write, or to read in a way that only MLflow knows.

    It is no ``Exception``: what handles any error of a store as a warning must not take it for one.
    """


@dataclass(frozen=True)
class PlainInfo:
    """``run.info``; times in milliseconds since 1970."""

    run_id: str
    experiment_id: str
    run_name: str
    status: str
    start_time: int
    end_time: int | None
    artifact_uri: str
    lifecycle_stage: str = "active"


@dataclass(frozen=True)
class PlainData:
    """``run.data``; of a metric the value of its last step."""

    metrics: dict[str, float] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PlainRun:
    """A run that can only be looked at."""

    info: PlainInfo
    data: PlainData = field(default_factory=PlainData)


class PlainClient(ABC):
    """The little of a client that looking needs. Whatever else is asked of it needs MLflow."""

    @abstractmethod
    def experiments(self, names: Iterable[str]) -> dict[str, str]:
        """The ids of these experiments, by name; those that are not there, or were deleted, are left out."""

    @abstractmethod
    def runs_with(self, experiment: str, tags: Mapping[str, str]) -> dict[str, PlainRun]:
        """All runs with these tags in one experiment, by id, oldest first."""

    def artifact(self, run: PlainRun, path: str) -> str:
        """The text of an artifact.

        Raises:
            NeedsMlflow: it is kept where only MLflow can read it, or it is not there.
        """
        place = run.info.artifact_uri
        file = Path(unquote(place.removeprefix("file://")) if place.startswith("file:///") else place) / path
        if not file.is_absolute() or not file.is_file():
            raise NeedsMlflow(f"{path} of run {run.info.run_id}")
        return file.read_text(encoding="utf-8")

    def __getattr__(self, name: str) -> NoReturn:
        raise NeedsMlflow(name)
