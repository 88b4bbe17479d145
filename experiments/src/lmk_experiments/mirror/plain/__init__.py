"""Stores read without MLflow, whose import takes seconds: enough to see that nothing is left to write."""

from lmk_experiments.mirror.plain.postgres import PostgresReader
from lmk_experiments.mirror.plain.runs import TROUBLE, NeedsMlflow, PlainClient, PlainRun
from lmk_experiments.mirror.plain.server import ServerReader
from lmk_experiments.mirror.plain.sqlite import SqliteReader

__all__ = ["TROUBLE", "NeedsMlflow", "PlainClient", "PlainRun", "PostgresReader", "ServerReader", "SqliteReader"]
