"""Arguments and options of the analyses, and what is made of their texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelsArgument = Annotated[
    list[str],
    typer.Argument(metavar="MODEL...", help="Models' folders or names on the hub; NAME=MODEL names it in the plot."),
]
TextsOption = Annotated[str, typer.Option("--texts", metavar="PATH", help="The documents: a file or a folder.")]
KeyOption = Annotated[
    str, typer.Option("--text-key", help="Where a row has its text, or a list of texts; several with commas: pos,neg.")
]
OutOption = Annotated[Path, typer.Option("--out", help="The folder for the files; others in it stay.")]
PoolingOption = Annotated[
    str | None,
    typer.Option(help="Read the models so instead of in their own way: cls, or as YAML '{kind: mean_at_k, k: 8}'."),
]
GranularityOption = Annotated[
    str | None, typer.Option(help="Read the models with landmarks: chunks of so many tokens, or `sentence`.")
]
DeviceOption = Annotated[str | None, typer.Option(help="E.g. cuda:0 or cpu. Default: a GPU if there is one.")]


def numbers(option: str, text: str, least: int) -> list[int]:
    """Numbers between commas.

    Raises:
        ValueError: naming the option.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) >= least for part in parts) or len(set(parts)) < len(parts):
        raise ValueError(f"{option} {text}: expected different numbers of at least {least}, for example 512,8192")
    return [int(part) for part in parts]


def all_saved(models: list[str]) -> bool:
    """Whether every model knows how it is pooled; another one is read as CLS here, since readings replace it anyway."""
    from lmk_experiments.cli.one_model import saved_pooling
    from lmk_experiments.texts import named

    return all(saved_pooling(named(text)[1]) is not None for text in models)
