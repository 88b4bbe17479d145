"""The verb ``encode``: the texts of a file, as vectors in another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lmk_core.pooling import PoolingConfig
from lmk_experiments.cli.interrupts import resumable
from lmk_experiments.texts import TextFile

if TYPE_CHECKING:
    from lmk_core import Embedder
    from lmk_core.embedder import EncodeOptions

Part = list[tuple[str, str]]
"""Ids and texts."""
ENDINGS = (".npy", ".jsonl", ".parquet")


def register(app: typer.Typer) -> None:
    """Add the verb of this module to ``app``."""
    app.command()(encode)


def encode(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model's folder, or its name on the hub.")],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Texts: .jsonl, .jsonl.gz, .parquet; anything else: a text a line.")
    ],
    out: Annotated[
        Path,
        typer.Option("--out", help="The vectors: .npy (with their ids in NAME.ids.txt beside it), .jsonl or .parquet."),
    ],
    text_key: Annotated[str, typer.Option(help="Where a row has its text.")] = "text",
    id_key: Annotated[
        str | None, typer.Option(help="Where a row has its id; default: _id, else id, else none.")
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="A prefix of every text.")] = None,
    pooling: Annotated[str | None, typer.Option(help="A pooling kind other than the model's own, e.g. mean.")] = None,
    granularity: Annotated[str | None, typer.Option(help="Landmark chunks: a number of tokens, or `sentence`.")] = None,
    max_length: Annotated[int | None, typer.Option(min=2, help="Tokens a text; default: the model's own.")] = None,
    batch_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens a batch; default: by the device.")] = None,
    dim: Annotated[int | None, typer.Option(min=1, help="Only the first so many dimensions (Matryoshka).")] = None,
    landmarks: Annotated[
        bool, typer.Option("--landmarks", help="A row for each landmark: its vector and the characters it closes.")
    ] = False,
    bf16: Annotated[bool, typer.Option("--bf16", help="Compute in bfloat16.")] = False,
    device: Annotated[
        list[str], typer.Option(help="E.g. cuda:0. Repeatable: a process for each. Default: a GPU if there is one.")
    ] = [],  # noqa: B006 - typer copies it
) -> None:
    """Encode the texts of a file with a model. Stopped, by a kill too, the same command goes on where it was."""
    if out.suffix not in ENDINGS:
        raise ValueError(f"--out {out}: ends in {out.suffix or 'nothing'}; valid: {', '.join(ENDINGS)}")
    if landmarks and out.suffix == ".npy":
        raise ValueError(f"--out {out}: landmarks go to .jsonl or .parquet, which hold their characters too")
    source = TextFile(file.expanduser(), text_key, id_key)
    next(source.rows(), None)  # a mistake in the first row is told before anything heavy is imported
    chunks: Any = int(granularity) if granularity is not None and granularity.isdecimal() else granularity
    if chunks is not None:
        PoolingConfig("landmark").with_granularity(chunks)  # told before anything heavy is imported
    options: EncodeOptions = {
        "max_length": max_length,
        "batch_tokens": batch_tokens,
        "dim": dim,
        "prompt": prompt,
        "bf16": bf16,
        "devices": device if len(device) > 1 else None,
        "show_progress": True,
    }
    with resumable():
        embedder = _load(model, pooling, chunks, max_length, device)
        if out.suffix == ".npy":
            count = _to_array(embedder, source, out, options)
        else:
            count = _to_rows(embedder, source, out, options, landmarks)
    typer.echo(f"{out}: {count} {'landmarks' if landmarks else 'vectors'}")


def _load(model: str, pooling: str | None, granularity: Any, max_length: int | None, devices: list[str]) -> Embedder:
    from lmk_core import Embedder
    from lmk_experiments.cli.analyze_models import check_devices
    from lmk_experiments.grids.local import refuse_missing_path

    refuse_missing_path("", model)
    check_devices(devices)
    local = Path(model).expanduser()
    return Embedder.from_pretrained(
        local if local.is_dir() else model,
        pooling,
        granularity,
        max_length,
        device=devices[0] if len(devices) == 1 else "cpu" if devices else None,
    )


def _to_array(embedder: Embedder, source: TextFile, out: Path, options: EncodeOptions) -> int:
    vectors = embedder.encode_to_file(source.texts(), out, **options)
    ids = out.with_suffix(".ids.txt")
    temporary = ids.with_name(f".{ids.name}.partial")
    with temporary.open("w", encoding="utf-8") as stream:
        for number, (own, _) in enumerate(source.rows()):
            if "\n" in own or "\r" in own:
                raise ValueError(f"{source.path}: the id of row {number} has a line break: {own!r}")
            stream.write(own + "\n")
    temporary.replace(ids)
    return len(vectors)


def _to_rows(embedder: Embedder, source: TextFile, out: Path, options: EncodeOptions, landmarks: bool) -> int:
    from lmk_core.embedder.files import encoding_settings
    from lmk_experiments.cli.encode_write import Parts

    parts = Parts(out, {**encoding_settings(embedder, options), "landmarks": landmarks})
    taken: list[Part] = []

    def texts() -> Iterator[list[str]]:
        for part in parts.unfinished(source.rows()):
            taken.append(part)
            yield [text for _, text in part]

    # All parts in one call, so that the processes of several devices start once.
    for found in embedder.encode_parts(texts(), landmarks=landmarks, **options):
        part = taken.pop()
        parts.add(_landmark_rows(part, found) if landmarks else _vector_rows(part, found))
    return parts.join()


def _vector_rows(part: Part, found: Any) -> Iterator[dict[str, Any]]:
    for (own, _), vector in zip(part, found, strict=True):
        yield {"id": own, "vector": vector.tolist()}


def _landmark_rows(part: Part, found: Any) -> Iterator[dict[str, Any]]:
    for (own, _), (vectors, spans) in zip(part, found, strict=True):
        for number, (vector, (start, end)) in enumerate(zip(vectors, spans, strict=True)):
            yield {"id": own, "landmark": number, "start": start, "end": end, "vector": vector.tolist()}
