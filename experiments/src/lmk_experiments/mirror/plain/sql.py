"""Runs out of tables that the installed MLflow has made, whatever database they are in."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lmk_experiments.mirror.plain.runs import NeedsMlflow, PlainClient, PlainData, PlainInfo, PlainRun

Ask = Callable[[str, Mapping[str, object]], Iterable[Sequence[Any]]]
"""Takes a query with ``:names`` and what they stand for, and gives its rows."""
_REVISION = re.compile(r'^(revision|down_revision)\s*=\s*["\'](\w+)["\']', re.MULTILINE)
_MINE = (
    "SELECT run_uuid FROM runs AS one WHERE experiment_id = :experiment AND lifecycle_stage = 'active'"
    " AND EXISTS (SELECT 1 FROM tags WHERE tags.run_uuid = one.run_uuid AND key = :key AND value = :value)"
)


class SqlReader(PlainClient):
    """Reads the tables, in one transaction a question, and never writes them."""

    @abstractmethod
    def _open(self) -> AbstractContextManager[Ask]:
        """A transaction that only reads."""

    def _check(self, what: str) -> None:
        """See that these are the tables of the MLflow that is installed.

        Raises:
            NeedsMlflow: they are not.
        """
        with self._open() as ask:
            held = [row[0] for row in ask("SELECT version_num FROM alembic_version", {})]
        if held != newest_schema():
            raise NeedsMlflow(f"{what} has another schema")

    def experiments(self, names: Iterable[str]) -> dict[str, str]:
        asked = "SELECT name, experiment_id FROM experiments WHERE lifecycle_stage = 'active' AND workspace = 'default'"
        with self._open() as ask:
            held = {name: str(number) for name, number in ask(asked, {})}
        return {name: held[name] for name in names if name in held}

    def runs_with(self, experiment: str, tags: Mapping[str, str]) -> dict[str, PlainRun]:
        (key, value), *_ = tags.items()
        words = {"experiment": int(experiment), "key": key, "value": value}
        with self._open() as ask:
            columns = "run_uuid, experiment_id, name, status, start_time, end_time, artifact_uri"
            found = ask(f"SELECT {columns} FROM runs WHERE run_uuid IN ({_MINE}) ORDER BY start_time, run_uuid", words)  # noqa: S608
            runs = {one[0]: PlainRun(PlainInfo(one[0], str(one[1]), *one[2:])) for one in found}
            for table in ("tags", "params"):
                asked = f"SELECT run_uuid, key, value FROM {table} WHERE run_uuid IN ({_MINE})"  # noqa: S608
                for run_id, name, text in ask(asked, words):
                    _texts(runs[run_id].data, table)[name] = text
            asked = f"SELECT run_uuid, key, value, is_nan FROM latest_metrics WHERE run_uuid IN ({_MINE})"  # noqa: S608
            for run_id, name, number, is_nan in ask(asked, words):
                runs[run_id].data.metrics[name] = float("nan") if is_nan else number
        return {run_id: run for run_id, run in runs.items() if tags.items() <= run.data.tags.items()}


def _texts(data: PlainData, table: str) -> dict[str, str]:
    return data.tags if table == "tags" else data.params


def newest_schema() -> list[str]:
    """The versions that no other one of the installed MLflow's schema comes after: one.

    Read from the text of its migrations, which does not import it.
    """
    found = find_spec("mlflow")
    if found is None or found.origin is None:
        raise NeedsMlflow("it is not installed")
    every, before = set(), set()
    for file in (Path(found.origin).parent / "store" / "db_migrations" / "versions").glob("*.py"):
        said = dict(_REVISION.findall(file.read_text(encoding="utf-8")))
        every.add(said.get("revision", ""))
        before.add(said.get("down_revision", ""))
    return sorted(every - before)
