"""``lmk data``: look at training data, and build it."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lmk_experiments.cli.options import DEFAULT_ROOT, RootOption, real_root
from lmk_experiments.words import counted

if TYPE_CHECKING:
    from lmk_train.data.reading import Survey
    from lmk_train.data.reading.survey import Lengths

data_app = typer.Typer(no_args_is_help=True, help="Look at training data, and build what grids name.")

_SHOWN = 20
"""Faulty rows of a file that are shown without --json."""


def register(app: typer.Typer) -> None:
    """Add the verb to ``app``."""
    app.add_typer(data_app, name="data")


@data_app.command("check")
def check_data(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files of rows, and folders of them.")],
    tokenizer: Annotated[
        str | None, typer.Option(help="Count tokens too: a tokenizer's folder, or a model's name on the hub.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, with every faulty row.")] = False,
    show_all: Annotated[bool, typer.Option("--all", help=f"Show every faulty row, not {_SHOWN} of a file.")] = False,
) -> None:
    """Read all rows; tell counts, lengths, score ranges and every faulty row by file and line.

    Ends with 1 where there are faults, and with 2 where a path is not there: nothing is read then.
    """
    from lmk_train.data import DataError
    from lmk_train.data.reading import data_files, survey

    absent = [str(path) for path in paths if not path.expanduser().exists()]
    if absent:
        raise ValueError(f"no such file or folder: {', '.join(absent)}")
    paths = [path.expanduser() for path in paths]
    lengths = None if tokenizer is None else _token_lengths(tokenizer)
    surveys: list[Survey] = []
    wrong: list[DataError] = []
    for path in paths:
        try:
            files = data_files(path)
        except DataError as error:
            wrong.append(error)
            continue
        for file in files:
            with _bar(str(file)) as progress:
                surveys.append(survey(file, lengths=lengths, progress=progress))
            if not as_json:
                typer.echo(_told(surveys[-1], None if show_all else _SHOWN))
    if as_json:
        whole = {
            "rows": sum(one.findings.rows for one in surveys),
            "faulty": sum(len(one.faults) for one in surveys),
            "files": [one.summary() for one in surveys],
            "problems": [str(error) for error in wrong],
        }
        typer.echo(json.dumps(whole, indent=1, ensure_ascii=False))
    else:
        for error in wrong:
            typer.echo(f"error: {error}", err=True)
        faulty = sum(len(one.faults) for one in surveys)
        rows = sum(one.findings.rows for one in surveys)
        typer.echo(f"{counted(len(surveys), 'file')}, {counted(rows, 'row')}, {counted(faulty, 'fault')}")
    if wrong or any(one.faults for one in surveys):
        raise typer.Exit(1)


@data_app.command("build")
def build_data(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="quickstart, small, or quickstart-tiny, small-tiny (seconds); published: msmarco-passage, "
            "msmarco-document, bge-m3; retromae: texts for pre-training.",
        ),
    ],
    sources: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FROM...]", help="Published data: its files (JSON lines, parquet), or their folders."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Published data: where it goes; default: ROOT/data/NAME, where grids look.")
    ] = None,
    any_count: Annotated[
        bool, typer.Option("--any-count", help="Published data: an excerpt, of another number of rows, is fine.")
    ] = False,
    max_faulty: Annotated[
        float, typer.Option(min=0, max=0.5, help="Published data: the share of faulty rows that may be left out.")
    ] = 0.0,
    languages: Annotated[
        list[str] | None,
        typer.Option("--language", metavar="PATTERN=CODE", help="bge-m3: the language of files whose path matches."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="retromae: which sample of the texts.")] = 0,
    root: RootOption = DEFAULT_ROOT,
) -> None:
    """Build data once; a second call finds it there.

    quickstart: data and models under the root, from what is installed. msmarco-passage, msmarco-document, bge-m3: the
    training layout of the paper, from the parts that were published, with their rows counted. retromae: a sample of
    texts, equally many from each FROM (the paper's are BookCorpus, Wikipedia, StackExchange).
    """
    from lmk_experiments.builders import BUILDERS, build
    from lmk_experiments.builders.published import PUBLISHED, build_published
    from lmk_experiments.builders.texts import RETROMAE, SHORT_NAME, build_texts
    from lmk_experiments.configs import explain

    where = real_root(root)
    if name in BUILDERS:
        if sources or out or any_count or languages:
            raise ValueError(f"{name} is made from what is installed; it takes neither files nor options for them")
        typer.echo(build(name, where, report=typer.echo))
        return
    if name in (SHORT_NAME, RETROMAE):
        if not sources or languages:
            raise ValueError(
                f"{name} is sampled from texts of yours: lmk data build {name} BOOKS WIKIPEDIA STACKEXCHANGE"
            )
        place = out or where / "data" / RETROMAE
        typer.echo(
            build_texts(
                sources,
                place,
                seed=seed,
                any_count=any_count,
                max_faulty=max_faulty,
                report=typer.echo,
                progress=_bar,
            )
        )
        return
    if name not in PUBLISHED:
        raise ValueError(f"nothing builds {name!r}; {explain(name, [*BUILDERS, *PUBLISHED, SHORT_NAME])}")
    if not sources:
        raise ValueError(f"{name} is built from published files: lmk data build {name} FILE_OR_FOLDER...")
    folder = build_published(
        name,
        sources,
        out or where / "data" / name,
        any_count=any_count,
        max_faulty=max_faulty,
        languages=languages or [],
        report=typer.echo,
        progress=_bar,
    )
    typer.echo(folder)


@contextmanager
def _bar(title: str) -> Generator[Callable[[int, int], None] | None]:
    """A bar of bytes on stderr where it is a terminal."""
    import sys

    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title[-60:])
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _token_lengths(name: str) -> Lengths:
    """Counts the tokens of texts, without special tokens.

    Raises:
        ValueError: there is no such tokenizer.
    """
    from lmk_core.texts.tokenizing import tokenize_texts
    from lmk_experiments.texts import open_tokenizer

    tokenizer = open_tokenizer(name)
    return lambda texts: tokenize_texts(tokenizer, texts, None)[1].tolist()


def _told(found: Survey, shown: int | None) -> str:
    """A file's survey for people."""
    values = found.summary()
    bucket = f", lengths {values['bucket']}" if values["bucket"] else ""
    lines = [
        f"{found.path}",
        f"  {values['rows']:,} rows, {values['rows_with_scores']:,} with scores, {values['faulty']:,} faulty{bucket}",
        _row("negatives a row", values["negatives_a_row"]),
        *(_row(f"characters of a {kind}", counts) for kind, counts in values["characters"].items()),
        *(_row(f"tokens of a {kind}", counts) for kind, counts in (values["tokens"] or {}).items()),
        *(_row(kind.replace("_", " "), values[kind]) for kind in ("positive_scores", "negative_scores")),
    ]
    if values["repeated_rows"] or values["repeated_positives"]:
        lines.append(
            f"  {values['repeated_rows']:,} rows repeat another one; "
            f"{values['repeated_positives']:,} more share their positive with another one"
        )
    lines += [f"  {name}: {count:,}" for name, count in values["counts"].items()]
    lines += [f"  {fault}" for fault in found.faults[:shown]]
    if shown is not None and len(found.faults) > shown:
        lines.append(f"  and {len(found.faults) - shown:,} more (--all or --json lists them)")
    return "\n".join(line for line in lines if line)


def _row(title: str, values: dict[str, Any] | None) -> str:
    if values is None:
        return ""
    return f"  {title}: " + ", ".join(f"{name} {value:,.4g}" for name, value in values.items())
