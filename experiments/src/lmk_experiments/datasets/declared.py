"""The declaration of a published data set: who it is, how much it holds, and how it gets onto a machine."""

from __future__ import annotations

from pydantic import Field, PositiveFloat, PositiveInt

from lmk_experiments.configs import Section, find_file, load_document, validate


class MeanTokens(Section):
    """Mean lengths in tokens, special tokens included, before any cut."""

    query: PositiveFloat | None = None
    """Of a query; null where the rows are texts alone."""
    passage: PositiveFloat
    """Of a passage (of a text, where the rows are texts alone)."""
    from_: str = Field(alias="from", min_length=1)
    """Where the numbers come from."""


class DataSet(Section):
    """One published data set. Its name and version are its identity: other content needs another version."""

    name: str
    """What stands after `data:`."""
    version: str
    """Raised by whoever changes what the files hold."""
    title: str
    """One line for people."""
    source: str
    """Where it is published, and under which name."""
    build: str
    """What has to be done so that it is there."""
    rows: PositiveInt | None = None
    """Rows it holds; null where nobody counted them."""
    parts: dict[str, PositiveInt] | None = None
    """Rows of each of its files, where they were published."""
    gb: PositiveFloat
    """Its size on disk, in GB."""
    mean_tokens: MeanTokens
    """Mean lengths, for estimates of cost only."""


def load_data_set(name: str) -> DataSet:
    """The declaration of the data set of this name.

    Raises:
        ConfigError: there is none (the message lists those that are), or its file is wrong.
    """
    path = find_file(name, "datasets")
    document = load_document(path)
    return validate(DataSet, document.value, document.problem)
