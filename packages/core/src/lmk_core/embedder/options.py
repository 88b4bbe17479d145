"""The options of every way to encode, and what is run with them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypedDict

import torch
from tqdm import tqdm

from lmk_core.embedder.batches import BatchOptions
from lmk_core.embedder.devices import Running, running
from lmk_core.embedder.encoding import Reading
from lmk_core.encoders import PooledEncoder
from lmk_core.layouts import PoolingTokenizer
from lmk_core.pooling import PoolingConfig


class EncodeOptions(TypedDict, total=False):
    """Options of `Embedder.encode` and its relatives. All may be left out."""

    max_length: int | None
    """In tokens, instead of the model's own."""
    batch_tokens: int | None
    """Tokens in a batch at most (padding included, where there is any). It changes memory and speed, not the result;
    None takes what suits the device. It is halved when memory runs out."""
    dim: int | None
    """Matryoshka: only the first so many dimensions, of length 1 again."""
    prompt: str | Sequence[str] | None
    """A prefix of every text (or one for each); its tokens count towards ``max_length``."""
    include_prompt: bool
    """False leaves the prompt's tokens out of the pooling. By default as the model has it, True as a rule."""
    bf16: bool
    """Compute in bfloat16: faster where the hardware has it, and less exact. Vectors are float32 all the same."""
    devices: Sequence[str | torch.device] | None
    """A process for each of these, such as ["cuda:0", "cuda:1"], or ["cpu"] * 4. Without it: here, where the model is.
    A script that uses it must start its work under ``if __name__ == "__main__":``."""
    show_progress: bool
    """A progress bar on stderr."""


def check_options(options: EncodeOptions, width: int) -> None:
    """Refuse what is no option, and a ``dim`` that the model has not.

    Raises:
        TypeError: for an unknown option.
        ValueError: for a ``dim`` beyond ``width``.
    """
    unknown = [name for name in options if name not in EncodeOptions.__annotations__]
    if unknown:
        raise TypeError(f"{unknown[0]}: no option; valid: {', '.join(EncodeOptions.__annotations__)}")
    dim = options.get("dim")
    if dim is not None and not 1 <= dim <= width:
        raise ValueError(f"dim: {dim}; valid: 1 to {width}, the model's own")


def check_one_prompt(options: EncodeOptions) -> None:
    """Refuse prompts one by one where the number of texts is not known.

    Raises:
        TypeError: for several.
    """
    if not isinstance(options.get("prompt"), str | None):
        raise TypeError("prompt: one for all texts is wanted here, not a list")


def check_landmarks(pooling: PoolingConfig) -> None:
    """Refuse the landmarks of another kind.

    Raises:
        ValueError: naming the kind.
    """
    if pooling.kind != "landmark":
        raise ValueError(f"landmarks: the pooling kind 'landmark' only has them, not {pooling.kind!r}")


def progress(total: int | None, initial: int, options: EncodeOptions) -> tqdm:
    """The progress bar, or one that is not shown."""
    return tqdm(total=total, initial=initial, unit="text", disable=not options.get("show_progress", False))


@dataclass(frozen=True)
class Job:
    """Readings of one model, ready to run."""

    modules: list[PooledEncoder]
    readings: list[Reading]
    options: BatchOptions
    devices: Sequence[str | torch.device] | None
    dim: int
    """Width of what comes out."""

    @classmethod
    def of(
        cls,
        parts: Sequence[tuple[PooledEncoder, PoolingTokenizer]],
        options: EncodeOptions,
        *,
        dim: int,
        landmarks: bool,
    ) -> Job:
        """A job of modules with their tokenizers."""
        batches = BatchOptions(options.get("batch_tokens"), options.get("dim"), options.get("bf16", False), landmarks)
        readings = [
            Reading(
                tokenizer,
                options.get("max_length"),
                options.get("prompt"),
                options.get("include_prompt", True),
                landmarks,
            )
            for _, tokenizer in parts
        ]
        width = min(options.get("dim") or dim, dim)
        return cls([module for module, _ in parts], readings, batches, options.get("devices"), width)

    def running(self) -> AbstractContextManager[Running]:
        """What runs it, for as long as it is open."""
        return running(self.modules, self.readings[0].tokenizer.tokens.pad, self.options, self.devices)
