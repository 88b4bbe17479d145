"""What is trained on: data sets, how they are mixed, and how many tokens of their texts are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeInt,
    PlainSerializer,
    PositiveFloat,
    PositiveInt,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from lmk_train.config.base import CONTENT, TRANSIENT, Section


def want_a_list(value: Any) -> Any:
    """The value itself, unless it is one path where a list of them is expected."""
    if isinstance(value, str):
        raise PydanticCustomError("list_of_files", "a list of files is expected, found {found}", {"found": repr(value)})
    return value


def _as_pairs(value: Any) -> Any:
    """A mapping as a tuple of its items: a frozen section has to be hashable."""
    return tuple(value.items()) if isinstance(value, Mapping) else value


BucketSizes = Annotated[
    tuple[tuple[str, PositiveInt], ...],
    BeforeValidator(_as_pairs),
    PlainSerializer(dict, return_type=dict[str, int]),
    WithJsonSchema({"type": "object", "description": "rows of a batch by length, such as {0-500: 48, 500-inf: 8}"}),
]


class TrainSet(Section):
    """One data set of a mixture. A batch holds rows of one data set alone."""

    path: str | tuple[str, ...] = Field(min_length=1, json_schema_extra=CONTENT)
    """A file, a folder of files in sorted order, or a list of these: together they are one data set."""

    name: str | None = Field(default=None, min_length=1, json_schema_extra=TRANSIENT)
    """What records call it; null takes the name of its first file or folder."""

    weight: PositiveFloat | None = Field(default=None, json_schema_extra={"identity_absent": None})
    """How often each of its rows is seen in an epoch of the mixture; null is once."""

    share: PositiveFloat | None = Field(default=None, json_schema_extra={"identity_absent": None})
    """Its part of the steps instead, relative to the shares of all others: either every data set has one, or none."""

    batch_size: PositiveInt | None = Field(default=None, json_schema_extra={"identity_absent": None})
    """Rows of one of its batches, over all processes; null is `optim.batch_size`."""

    batch_sizes: BucketSizes | None = Field(default=None, json_schema_extra={"identity_absent": None})
    """Rows of a batch by length, for files named `..._len-0-500.jsonl`: a batch then holds rows of one length alone."""

    negatives: NonNegativeInt | None = Field(default=None, json_schema_extra={"identity_absent": None})
    """Hard negatives of each of its rows; null is `data.negatives`."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Its files and folders."""
        return (self.path,) if isinstance(self.path, str) else self.path

    @model_validator(mode="after")
    def _check_choices(self) -> TrainSet:
        for one, other in (("weight", "share"), ("batch_size", "batch_sizes")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise PydanticCustomError(
                    "one_of_two", "give '{one}' or '{other}', not both", {"one": one, "other": other}
                )
        return self


class DataConfig(Section):
    """The rows that are trained on, and how many tokens of them are read."""

    train: tuple[str | TrainSet, ...] = Field(min_length=1, json_schema_extra=CONTENT)
    """Data sets: each a file (JSON lines, also compressed, or parquet), a folder of them, or a mapping with `path` and
    what is special about it. Rows have the keys `query`, `pos`, `neg` and, for distillation, `pos_scores`,
    `neg_scores`."""

    validation: str | None = Field(default=None, json_schema_extra=TRANSIENT)
    """A file of the same format that is measured while training; its texts are pooled as the candidates."""

    negatives: NonNegativeInt = 7
    """Hard negatives of each row, drawn without replacement; with 0, and for a row that has none, the other rows'
    passages alone are its negatives."""

    query_max_length: int = Field(default=128, ge=2)
    """Tokens of a query, special tokens included."""

    passage_max_length: int = Field(default=512, ge=2)
    """Tokens of a passage, special tokens included; also the saved model's own maximum."""

    last_batch: Literal["auto", "drop", "spread"] = Field(default="auto", json_schema_extra={"identity_absent": "auto"})
    """What becomes of rows that do not fill a batch: `drop` leaves them to the next epoch's order, `spread` makes all
    batches of an epoch equally large, to a row. `auto` drops with one data set and spreads with several."""

    prompt: str | None = Field(default=None, json_schema_extra={"identity_absent": None})
    """How a row's own `prompt` stands before its query, such as `"{prompt} {text}"`; null leaves prompts out."""

    stream_buffer: PositiveInt | None = Field(default=None, json_schema_extra={"identity_absent": None})
    """Rows kept in memory and shuffled while files are read again and again, for data larger than the disk; null keeps
    tokenized texts on disk and shuffles all rows."""

    max_faulty: float = Field(default=0.0, ge=0, lt=1, json_schema_extra=TRANSIENT)
    """The share of a file's rows that may be faulty: these are dropped and counted. With more, nothing is trained."""

    cache: str | None = Field(default=None, json_schema_extra=TRANSIENT)
    """Folder of tokenized texts, shared by all trainings; null is `$LMK_CACHE`, or `~/.cache/lmk`."""

    @property
    def sets(self) -> tuple[TrainSet, ...]:
        """The entries of ``train``, each as a mapping."""
        return tuple(TrainSet(path=entry) if isinstance(entry, str) else entry for entry in self.train)

    @property
    def paths(self) -> tuple[str, ...]:
        """All files and folders of ``train``."""
        return tuple(path for entry in self.sets for path in entry.paths)

    @property
    def spreads(self) -> bool:
        """Whether rows that do not fill a batch are spread over all batches."""
        several = len(self.train) > 1 or any(entry.batch_sizes for entry in self.sets)
        if self.stream_buffer is not None:
            return False
        return self.last_batch == "spread" or (self.last_batch == "auto" and several)

    @field_validator("train", mode="before")
    @classmethod
    def _want_a_list(cls, value: Any) -> Any:
        return want_a_list(value)

    @field_validator("train", mode="after")
    @classmethod
    def _one_form(cls, entries: tuple[str | TrainSet, ...]) -> tuple[str | TrainSet, ...]:
        """The one way to write these entries: a path alone where there is one data set, else mappings.

        So equal trainings have equal identities; and a list of paths, which once was one data set mixed row by row, has
        another one than it had then.
        """
        sets = [TrainSet(path=entry) if isinstance(entry, str) else entry for entry in entries]
        if len({entry.share is None for entry in sets}) > 1:
            without = next(entry for entry in sets if entry.share is None)
            raise PydanticCustomError(
                "shares", "either every data set has a share, or none: {path} has none", {"path": without.paths[0]}
            )
        if len(sets) > 1:
            return tuple(sets)
        only = sets[0].model_copy(update={"weight": None, "share": None})
        path = only.paths[0]
        plain = len(only.paths) == 1 and only.model_copy(update={"path": path, "name": None}) == TrainSet(path=path)
        return (path,) if plain else (only,)

    @field_validator("prompt")
    @classmethod
    def _has_both(cls, value: str | None) -> str | None:
        try:
            filled = value is None or value.format(prompt="\0p", text="\0t")
        except (KeyError, IndexError, ValueError):
            filled = ""
        if isinstance(filled, str) and not ("\0p" in filled and "\0t" in filled):
            raise PydanticCustomError(
                "prompt_format", "a text with {{prompt}} and {{text}} is expected, such as '{{prompt}} {{text}}'"
            )
        return value

    @model_validator(mode="after")
    def _streams_what_it_can(self) -> DataConfig:
        if self.stream_buffer is None:
            return self
        if len(self.train) > 1 and any(entry.share is None for entry in self.sets):
            raise PydanticCustomError(
                "stream_shares", "several streamed data sets need a 'share' each: their rows are not counted"
            )
        if self.last_batch == "spread" or any(entry.batch_sizes for entry in self.sets):
            raise PydanticCustomError("stream_batches", "streamed data has neither last_batch: spread nor batch_sizes")
        return self
