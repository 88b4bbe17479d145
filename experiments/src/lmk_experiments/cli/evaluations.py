"""``lmk evaluate``: one model on one suite, read in one way or in several."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmk_experiments.cli.options import DEFAULT_ROOT, RootOption, real_root

if TYPE_CHECKING:
    from lmk_core.pooling import PoolingConfig
    from lmk_eval import Settings
    from lmk_eval.suites import Suite


def register(app: typer.Typer) -> None:
    """Add the verbs of this module to ``app``."""
    app.command()(evaluate)


def evaluate(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="A model's folder, or its name on the hub.")
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            "--suite",
            help="A shipped suite (mldr-en), a folder (corpus.jsonl, queries.jsonl, qrels/test.tsv), or a suite of "
            "yours as a YAML file.",
        ),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Show the shipped suites and what is in them.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where results go; default: results/SUITE in this folder.")
    ] = None,
    max_length: Annotated[int, typer.Option(min=2, help="Tokens a text, special tokens included.")] = 512,
    granularity: Annotated[
        str | None, typer.Option(help="Read with landmarks at these chunk sizes: 32,64,128,256. Tokenized once.")
    ] = None,
    pooling: Annotated[
        list[str],
        typer.Option(help="Another way to read the model, as YAML: '{kind: multi_cls, every: 128}'. Repeatable."),
    ] = [],  # noqa: B006 - typer copies it
    split: Annotated[
        str | None, typer.Option(help="Which qrels/SPLIT.tsv of a folder to score; default: test.")
    ] = None,
    group_by: Annotated[
        str | None, typer.Option(help="Of a folder: also score by this key of the queries' metadata.")
    ] = None,
    prompts: Annotated[
        str | None, typer.Option(help="Texts in front of queries or documents, as YAML: '{query: \"query: \"}'.")
    ] = None,
    weights: Annotated[str, typer.Option(help="The type of the weights: float32, bfloat16 or float16.")] = "float32",
    storage: Annotated[str, typer.Option(help="The type of a corpus's embeddings on disk, likewise.")] = "float32",
    share: Annotated[
        str | None,
        typer.Option(
            help="NUMBER/OF, from 0: only encode this share of every corpus, as one task of an array; the same command "
            "without it then scores."
        ),
    ] = None,
    root: RootOption = DEFAULT_ROOT,
) -> None:
    """Evaluate one model on one suite or one local retrieval set, and print its scores as JSON."""
    from lmk_experiments.cli.one_model import find_suite
    from lmk_experiments.cli.show_suites import suites_text

    if listing:
        typer.echo(suites_text())
        return
    if model is None or suite is None:
        raise ValueError("give a MODEL and --suite NAME; `lmk evaluate --list` shows the suites")
    settings = _settings(prompts, weights, storage, share, real_root(root))
    poolings = _poolings(model, pooling, granularity)
    chosen = find_suite(suite, split, group_by, real_root(root))
    typer.echo(json.dumps(_scores(model, chosen, out, max_length, poolings, settings), indent=2))


def _scores(
    model: str,
    chosen: Suite,
    out: Path | None,
    max_length: int,
    poolings: list[PoolingConfig],
    settings: Settings,
) -> object:
    from safetensors import SafetensorError

    from lmk_experiments.builders import fingerprint
    from lmk_experiments.cli.one_model import check_model, reading_name
    from lmk_experiments.grids.identity import revision

    check_model(model, poolings[0] if poolings else None)
    from lmk_eval import Reading, evaluate_readings  # takes seconds: a mistake is told before it
    from lmk_eval import evaluate as run_evaluation

    results = out or Path("results") / chosen.name
    local = Path(model).expanduser()
    known = fingerprint(str(local.resolve()), results.resolve()) if local.is_dir() else model
    held = local if local.is_dir() else model
    try:
        if len(poolings) < 2:
            pooling = poolings[0] if poolings else None
            return run_evaluation(
                held,
                chosen,
                folder=results,
                name="lmk/model",
                revision=revision(known, pooling, max_length),
                max_length=max_length,
                pooling=pooling,
                settings=settings,
            )
        readings = [Reading(reading_name(one), revision(known, one, max_length), one.to_dict()) for one in poolings]
        return evaluate_readings(
            held, chosen, readings, folder=results, name="lmk/model", max_length=max_length, settings=settings
        )
    except SafetensorError as error:
        raise ValueError(f"{model}: its *.safetensors cannot be read: {error}") from error


def _settings(prompts: str | None, weights: str, storage: str, share: str | None, root: Path) -> Settings:
    from lmk_eval import Settings
    from lmk_experiments.configs import YamlError, explain, read_yaml
    from lmk_experiments.datasets import mirrors_folder

    kinds = ("float32", "bfloat16", "float16")
    for name, kind in (("--weights", weights), ("--storage", storage)):
        if kind not in kinds:
            raise ValueError(f"{name} {kind}: {explain(kind, kinds)}")
    texts = None
    if prompts is not None:
        try:
            texts = read_yaml(prompts)[0]
        except YamlError as error:
            raise ValueError(f"--prompts {prompts}: {error}") from None
        if not isinstance(texts, dict) or not all(isinstance(one, str) for pair in texts.items() for one in pair):
            raise ValueError(f"--prompts {prompts}: expected keys and texts, for example '{{query: \"query: \"}}'")
    part = None
    if share is not None:
        number, _, of = share.partition("/")
        if not (number.isdecimal() and of.isdecimal() and int(number) < int(of)):
            raise ValueError(f"--share {share}: expected NUMBER/OF with numbers from 0, for example 0/8 to 7/8")
        part = int(number), int(of)
    return Settings(
        prompts=texts,
        mirrors=mirrors_folder(root),
        weights=weights,  # ty: ignore[invalid-argument-type] - checked above
        storage=storage,  # ty: ignore[invalid-argument-type]
        share=part,
    )


def _poolings(model: str, given: list[str], granularity: str | None) -> list[PoolingConfig]:
    """The readings that were asked for.

    Raises:
        ValueError: it is not YAML or no pooling, no list of sizes, or one reading stands there twice.
    """
    from lmk_core.pooling import PoolingConfig, PoolingConfigError
    from lmk_experiments.cli.one_model import saved_pooling
    from lmk_experiments.configs import YamlError, read_yaml

    found: list[PoolingConfig] = []
    for text in given:
        try:
            found.append(PoolingConfig.from_dict(read_yaml(text)[0]))
        except (YamlError, PoolingConfigError) as error:
            raise ValueError(f"--pooling {text}: {error}") from None
    sizes = [] if granularity is None else granularity.split(",")
    if not all(size.strip().isdecimal() and int(size) >= 1 for size in sizes):
        raise ValueError(f"--granularity {granularity}: expected numbers of at least 1, for example 32,64,128")
    if len(set(map(int, sizes))) < len(sizes):
        raise ValueError(f"--granularity {granularity}: the same reading stands there twice")
    if sizes:
        saved = saved_pooling(model)  # takes seconds, so mistakes are told before it
        landmark = saved if saved is not None and saved.kind == "landmark" else PoolingConfig("landmark")
        found += [landmark.with_granularity(int(size)) for size in sizes]
    if len(set(found)) < len(found):
        raise ValueError("the same reading stands twice in --pooling and --granularity")
    return found
