"""What an entry of ``analyze:`` may say, by its kind."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from lmk_eval.suites import Task
from lmk_experiments.configs import Section

Length = Annotated[int, Field(ge=2, strict=True)]
Count = Annotated[int, Field(ge=1, strict=True)]
Lengths = Annotated[tuple[Length, ...], Field(min_length=1)]
Texts = str | Task
"""A file, a folder or a reference; or a task of MTEB, whose documents are meant."""


class EntryError(ValueError):
    """Two values of an entry do not fit together; ``key`` is the one to change."""

    def __init__(self, message: str, key: str) -> None:
        self.key = key
        super().__init__(message)


class ModelEntry(Section):
    """A model that this grid does not train."""

    name: str = Field(min_length=1)
    """What the plot calls it."""
    path: str = Field(min_length=1)
    """A folder (`./model`, counted from this file), `built:` data, or a name on the hub."""
    revision: str | None = None
    """Of a model of the hub."""
    pooling: dict[str, Any] | None = None
    """How it is read; a saved model's own way unless said."""


class Entry(Section):
    """What every kind has."""

    kind: str
    """What is analysed."""
    name: str = ""
    """What `lmk status`, `lmk tail` and the report call it; the kind unless said."""
    title: str = ""
    """The heading on the report page."""

    transient: ClassVar[tuple[str, ...]] = ("name", "title", "of", "models")
    """Keys that are no part of an identity by themselves: names, and what the series say already."""

    def options(self) -> dict[str, Any]:
        """What the analysis itself is told, as JSON values; a key that was not said has its default."""
        return self.model_dump(mode="json", exclude={*self.transient, "kind"})


class OfModels(Entry):
    """What kinds that look at models have."""

    of: tuple[Any, ...] = ()
    """Rows of `train`, as names and patterns, or as views: {of: cls-*, row: ..., pooling: ...}."""
    models: tuple[ModelEntry, ...] = ()
    """Models beside them that are not trained here."""

    @model_validator(mode="after")
    def _some(self) -> OfModels:
        if not self.of and not self.models:
            raise EntryError("a model is needed: name rows of `train` here, or models of elsewhere as `models`", "of")
        names = [one.name for one in self.models]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise EntryError(f"two models are called {twice!r}", "models")
        return self


class OfTexts(OfModels):
    """What kinds that read texts with models have."""

    texts: Texts
    """The documents: a file, a folder, `built:` or `data:`, or {name: ..., mteb: TASK, split: ..., subsets: [...]}."""
    text_key: str = Field(default="text", min_length=1)
    """Where a row has its text, or a list of texts; several with commas: pos,neg."""


class LongDocuments(OfTexts):
    """What kinds that draw long documents have."""

    documents: Count = 50
    """So many documents at most."""
    seed: Annotated[int, Field(ge=0, strict=True)] | None = 0
    """Of the draw among all documents that are long enough; null takes the first ones instead."""


class AttentionEntry(LongDocuments):
    """Figure 2."""

    kind: Literal["attention"]
    max_length: Length | Lengths = 8192
    """Tokens a document; several lengths are panels."""
    by: Literal["tokens", "fraction"] = "tokens"
    """Positions in tokens, or as a fraction of the document."""
    bins: Count = 32
    """Bins of positions, of equal width."""
    min_tokens: Count | None = None
    """Tokens of a document at least; the largest `max_length` unless said."""
    layer: Annotated[int, Field(strict=True)] = -1
    """Counted from 0, or from the end: -1 is the last."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """The maximum lengths."""
        return (self.max_length,) if isinstance(self.max_length, int) else self.max_length

    @model_validator(mode="after")
    def _fits(self) -> AttentionEntry:
        if len(set(self.lengths)) < len(self.lengths):
            raise EntryError("one length stands here twice", "max_length")
        if self.bins > min(self.lengths):
            raise EntryError(f"{self.bins} bins; valid: 1 to {min(self.lengths)}, the shortest max_length", "bins")
        return self


class LengthsEntry(Entry):
    """Figure 3."""

    kind: Literal["lengths"]
    texts: Texts | dict[str, Texts]
    """A file, a folder, `built:`, `data:` or a task of MTEB; or several by the names that the plot gives them."""
    text_key: str = Field(default="text", min_length=1)
    """Where a row has its text, or a list of texts; several with commas: pos,neg."""
    tokenizer: str = Field(min_length=1)
    """A model's folder, or its name on the hub."""
    max_lengths: Lengths = (128, 256, 512, 1024, 2048, 4096, 8192, 32768)
    """Tell what these maximum lengths cut, special tokens included."""
    limit: Count | None = None
    """Only the first so many texts of each."""


class LandmarksEntry(LongDocuments):
    """Figure 4."""

    kind: Literal["landmarks"]
    k: Count = 10
    """Hit@k of the summary."""
    min_chunks: Annotated[int, Field(ge=2, strict=True)] = 256
    """Chunks of a document at least."""
    max_chunks: Annotated[int, Field(ge=2, strict=True)] | None = None
    """Only a document's first so many; as `min_chunks` unless said, so that all documents are as hard."""
    max_length: Length | None = None
    """Tokens a document; what `max_chunks` chunks take unless said."""

    @model_validator(mode="after")
    def _fits(self) -> LandmarksEntry:
        if self.k >= self.min_chunks:
            raise EntryError(f"k is {self.k}; valid: 1 to {self.min_chunks - 1}, fewer than min_chunks", "k")
        if self.max_chunks is not None and self.max_chunks < self.min_chunks:
            raise EntryError(f"{self.max_chunks} is below min_chunks, {self.min_chunks}", "max_chunks")
        return self


class PositionEntry(OfModels):
    """NDCG@10 by the place of the evidence and by the length of the document."""

    kind: Literal["position"]
    folder: str = Field(min_length=1)
    """A retrieval set: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv."""
    split: str = Field(default="test", min_length=1)
    """Which qrels/SPLIT.tsv."""
    position_key: str | None = None
    """Key of the queries' metadata that says where the evidence stands; else where the query's own text stands."""
    bins: Count = 8
    """Bins of fractions."""
    max_length: Length = 8192
    """Tokens a text, special tokens included."""


class GeometryEntry(OfTexts):
    """Effective rank, uniformity and spectrum."""

    kind: Literal["geometry"]
    max_length: Length | None = None
    """Tokens a text; each model's own unless said."""
    limit: Annotated[int, Field(ge=2, strict=True)] = 2000
    """The first so many texts."""


class CostEntry(OfTexts):
    """What landmarks cost by granularity."""

    kind: Literal["cost"]
    granularity: Annotated[tuple[Count, ...], Field(min_length=1)] = (16, 32, 64, 128, 256)
    """Tokens between landmarks."""
    max_length: Length | None = None
    """Tokens a text; each model's own unless said."""
    limit: Count = 200
    """The first so many texts."""
    rounds: Annotated[int, Field(ge=0, strict=True)] = 3
    """Measure the seconds so often, after a warm-up; 0 counts tokens only."""


ENTRIES: dict[str, type[Entry]] = {
    "attention": AttentionEntry,
    "cost": CostEntry,
    "geometry": GeometryEntry,
    "landmarks": LandmarksEntry,
    "lengths": LengthsEntry,
    "position": PositionEntry,
}
"""The kinds of analyses."""
