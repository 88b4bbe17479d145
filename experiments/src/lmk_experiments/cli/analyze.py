"""``lmk analyze``: the paper's analyses, and three more, of any models and texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lmk_experiments.cli.analyze_models import open_models
from lmk_experiments.cli.analyze_options import (
    DeviceOption,
    GranularityOption,
    KeyOption,
    ModelsArgument,
    OutOption,
    PoolingOption,
    TextsOption,
    all_saved,
    numbers,
)
from lmk_experiments.cli.analyze_show import analyzed
from lmk_experiments.texts import open_tokenizer, sources

analyze_app = typer.Typer(
    no_args_is_help=True,
    help="Look into models and data: Figures 2, 3 and 4 of the paper, and three analyses more. Each writes KIND.png, "
    ".svg (for print), .csv (the plot's data) and .json (settings and summary) into --out, and prints the summary.",
    epilog="Several models side by side: lmk analyze attention short=MODEL_A long=MODEL_B --texts corpus.jsonl.   "
    "Texts: .jsonl, .jsonl.gz, .parquet, a text a line, a folder of such files, or one in the BEIR layout.",
)

OUT = Path("analyses")


def register(app: typer.Typer) -> None:
    """Add the verb to ``app``."""
    app.add_typer(analyze_app, name="analyze")


@analyze_app.command("attention")
def analyze_attention(
    models: ModelsArgument,
    texts: TextsOption,
    text_key: KeyOption = "text",
    out: OutOption = OUT,
    max_length: Annotated[
        str, typer.Option(metavar="N[,N...]", help="Tokens a document; several lengths are panels side by side.")
    ] = "8192",
    by: Annotated[
        Literal["tokens", "fraction"], typer.Option(help="Positions in tokens, or as a fraction of the document.")
    ] = "tokens",
    bins: Annotated[int, typer.Option(min=1, help="Bins of positions, of equal width.")] = 32,
    documents: Annotated[int, typer.Option(min=1, help="So many documents, drawn among those long enough.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw of documents.")] = 0,
    min_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens of a document at least; default: the largest --max-length.")
    ] = None,
    layer: Annotated[int, typer.Option(help="Counted from 0, or from the end: -1 is the last.")] = -1,
    pooling: PoolingOption = None,
    granularity: GranularityOption = None,
    device: DeviceOption = None,
) -> None:
    """Figure 2: where in long documents CLS, or the landmarks, look in the last layer.

    The mean over heads, pooled positions and documents, as a multiple of uniform attention (1 everywhere). Only the
    rows of the pooled positions are computed, so 8192 tokens and more need no matrix of that size squared.
    """
    lengths = numbers("--max-length", max_length, 2)
    (source,) = sources([texts], text_key)

    def make(progress: Any) -> Any:
        series = open_models(models, pooling, granularity, device)
        from lmk_eval.analyses import analyse_attention

        return analyse_attention(
            series,
            source.texts(),
            lengths,
            by=by,
            bins=bins,
            documents=documents,
            min_tokens=min_tokens,
            layer=layer,
            seed=seed,
            recorder=progress,
        )

    analyzed(make, out)


@analyze_app.command("lengths")
def analyze_lengths(
    data: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Files or folders of texts; NAME=PATH names it in the plot."),
    ],
    tokenizer: Annotated[str, typer.Option(help="A tokenizer's folder, or a model's name on the hub.")],
    text_key: KeyOption = "text",
    out: OutOption = OUT,
    max_length: Annotated[
        str, typer.Option(metavar="N[,N...]", help="Tell what these maximum lengths cut, special tokens included.")
    ] = "128,256,512,1024,2048,4096,8192,32768",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many texts of each.")] = None,
) -> None:
    """Figure 3: how many tokens the texts of a data set have, and the share that each maximum length cuts.

    Training rows: --text-key pos counts their positive passages, pos,neg all of them.
    """
    lengths = numbers("--max-length", max_length, 2)
    found = sources(data, text_key)

    def make(progress: Any) -> Any:
        from lmk_eval.analyses import analyse_lengths

        counted = open_tokenizer(tokenizer)
        held = {one.name: one.texts() for one in found}
        return analyse_lengths(held, counted, lengths, limit=limit, recorder=progress)

    analyzed(make, out)


@analyze_app.command("landmarks")
def analyze_landmarks(
    models: ModelsArgument,
    texts: TextsOption,
    text_key: KeyOption = "text",
    out: OutOption = OUT,
    k: Annotated[int, typer.Option("--k", min=1, help="Hit@k of the summary.")] = 10,
    min_chunks: Annotated[int, typer.Option(min=2, help="Chunks of a document at least.")] = 256,
    max_chunks: Annotated[
        int | None,
        typer.Option(min=2, help="Only a document's first so many; default: as --min-chunks, so all are as hard."),
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(min=2, help="Tokens a document; default: what --max-chunks chunks take.")
    ] = None,
    documents: Annotated[int, typer.Option(min=1, help="So many documents, drawn among those long enough.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw of documents.")] = 0,
    granularity: GranularityOption = None,
    device: DeviceOption = None,
) -> None:
    """Figure 4: whether a landmark of a long document still finds the chunks beside it.

    Each chunk is encoded alone, each landmark saw the whole document. Hit@k: how often the chunk to the left (or right)
    of a landmark is among the k nearest of the document's chunks. The bias is left less right.
    """
    (source,) = sources([texts], text_key)

    def make(progress: Any) -> Any:
        series = open_models(models, None, granularity, device, landmarks=True)
        from lmk_eval.analyses import analyse_landmarks

        return analyse_landmarks(
            series,
            source.texts(),
            k=k,
            min_chunks=min_chunks,
            max_chunks=max_chunks or min_chunks,
            max_length=max_length,
            documents=documents,
            seed=seed,
            recorder=progress,
        )

    analyzed(make, out)


@analyze_app.command("position")
def analyze_position(
    models: ModelsArgument,
    folder: Annotated[
        Path, typer.Option("--folder", help="A retrieval set: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv.")
    ],
    split: Annotated[str, typer.Option(help="Which qrels/SPLIT.tsv.")] = "test",
    position_key: Annotated[
        str | None,
        typer.Option(
            help="Key of the queries' metadata that says where the evidence stands: a fraction, or a group. Without it "
            "it is where the query's own text stands in its document."
        ),
    ] = None,
    bins: Annotated[int, typer.Option(min=1, help="Bins of fractions.")] = 8,
    max_length: Annotated[int, typer.Option(min=2, help="Tokens a text, special tokens included.")] = 8192,
    out: OutOption = OUT,
    pooling: PoolingOption = None,
    granularity: GranularityOption = None,
    device: DeviceOption = None,
) -> None:
    """NDCG@10 by where in its document the evidence stands, and by how long the document is.

    Evaluations are kept in OUT/evaluations: stopped, the same command goes on, and a model more costs itself only.
    """
    from lmk_eval.analyses.position import position_groups
    from lmk_eval.tasks.folder import read_folder

    place = folder.expanduser()
    position_groups(
        read_folder(place, split), position_key, bins
    )  # a mistake is told before anything heavy is imported
    work = out.expanduser() / "evaluations"

    def make(progress: Any) -> Any:
        series = open_models(models, pooling, granularity, device, keep=(work.resolve(), max_length))
        from lmk_eval.analyses import analyse_position

        return analyse_position(
            series,
            place,
            split=split,
            position_key=position_key,
            bins=bins,
            max_length=max_length,
            work=work,
            recorder=progress,
        )

    analyzed(make, out, goes_on=True)


@analyze_app.command("geometry")
def analyze_geometry(
    models: ModelsArgument,
    texts: TextsOption,
    text_key: KeyOption = "text",
    out: OutOption = OUT,
    max_length: Annotated[int | None, typer.Option(min=2, help="Tokens a text; default: each model's own.")] = None,
    limit: Annotated[int, typer.Option(min=2, help="The first so many texts.")] = 2000,
    pooling: PoolingOption = None,
    granularity: GranularityOption = None,
    device: DeviceOption = None,
) -> None:
    """Effective rank, uniformity and mean cosine of the embeddings of many texts, and their spectrum."""
    (source,) = sources([texts], text_key)

    def make(progress: Any) -> Any:
        series = open_models(models, pooling, granularity, device)
        from lmk_eval.analyses import analyse_geometry

        return analyse_geometry(series, source.texts(), max_length=max_length, limit=limit, recorder=progress)

    analyzed(make, out)


@analyze_app.command("cost")
def analyze_cost(
    models: ModelsArgument,
    texts: TextsOption,
    text_key: KeyOption = "text",
    out: OutOption = OUT,
    granularity: Annotated[
        str, typer.Option(metavar="N[,N...]", help="Tokens between landmarks.")
    ] = "16,32,64,128,256",
    max_length: Annotated[int | None, typer.Option(min=2, help="Tokens a text; default: each model's own.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The first so many texts.")] = 200,
    rounds: Annotated[
        int, typer.Option(min=0, help="Measure the seconds so often, after a warm-up; 0 counts tokens only.")
    ] = 3,
    device: DeviceOption = None,
) -> None:
    """What landmarks cost by granularity: more tokens, text that no longer fits, more seconds.

    The same weights are read with landmarks and as CLS text SEP. The maximum length is not raised for landmarks, as in
    the paper; seconds are only worth something on a machine with nothing else to do.
    """
    sizes = numbers("--granularity", granularity, 1)
    (source,) = sources([texts], text_key)

    def make(progress: Any) -> Any:
        series = open_models(models, None if all_saved(models) else "cls", None, device)
        from lmk_eval.analyses import analyse_cost

        return analyse_cost(
            series, source.texts(), sizes, max_length=max_length, limit=limit, rounds=rounds, recorder=progress
        )

    analyzed(make, out)
