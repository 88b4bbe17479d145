"""The small replication's data, on its tiny version: who is asked, with which words, where the answer stands."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from lmk_experiments.builders import BUILDERS, build
from lmk_experiments.builders.pairs import Pair
from lmk_experiments.builders.places import Asked, Line, document, tokens_of
from lmk_experiments.builders.sources import Function
from lmk_experiments.builders.words import content_words, stem, unshared, without_shared_words, words_of

NAME = "small-tiny"
LENGTHS = (256, 512, 1024)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(NAME, tmp_path_factory.mktemp("runs"))


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def search(built: Path, name: str) -> tuple[dict[str, str], dict[str, dict], dict[str, str]]:
    """Texts by id, queries by id, and each query's right document."""
    folder = built / "eval" / name
    rows = (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]
    texts = {one["_id"]: one["text"] for one in lines(folder / "corpus.jsonl")}
    return texts, {one["_id"]: one for one in lines(folder / "queries.jsonl")}, dict(r.split("\t")[:2] for r in rows)


def shared(query: str, code: str) -> set[str]:
    return {stem(word) for word in words_of(query)} & {stem(word) for word in words_of(code)}


def test_all_that_references_may_name_is_there(built: Path) -> None:
    assert all((built / name).exists() for name in BUILDERS[NAME].outputs)
    assert "eval/long-1024-unshared" in BUILDERS[NAME].outputs
    assert "eval/long-4096-unshared" in BUILDERS["small"].outputs


def test_unshared_queries_share_no_word_with_their_function_and_whole_ones_do(built: Path) -> None:
    texts, queries, answers = search(built, "short-unshared")
    whole_texts, whole, whole_answers = search(built, "short")
    assert (texts, answers) == (whole_texts, whole_answers)  # the same search
    assert len(queries) == len(texts) == 60
    assert not any(shared(query["text"], texts[answers[name]]) for name, query in queries.items())
    assert all(content_words(query["text"]) >= 1 for query in queries.values())
    share = sum(bool(shared(query["text"], texts[answers[name]])) for name, query in whole.items()) / len(whole)
    assert share > 0.8
    assert all(set(queries[name]["text"].split()) <= set(whole[name]["text"].split()) for name in whole)


def test_every_length_asks_the_same_questions_in_the_same_quarters(built: Path) -> None:
    kinds = [[search(built, f"long-{tokens}{kind}") for tokens in LENGTHS] for kind in ("", "-unshared")]
    for shorter, longer in pairwise(kinds[0]):
        assert shorter[1:] == longer[1:]
        assert shorter[0].keys() == longer[0].keys()
    for whole, other in zip(*kinds, strict=True):
        assert (whole[0], whole[2]) == (other[0], other[2])
        assert {n: q["metadata"] for n, q in whole[1].items()} == {n: q["metadata"] for n, q in other[1].items()}


@pytest.mark.parametrize("tokens", LENGTHS)
def test_documents_have_their_length_and_the_evidence_its_quarter(built: Path, tokens: int) -> None:
    tokenizer = Tokenizer.from_file(str(built / "model" / "tokenizer.json"))

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    texts, queries, answers = search(built, f"long-{tokens}")
    functions = search(built, "short")[0]
    # The shorter the document, the more a line is of it.
    assert all(max(0.95 * tokens - 50, 0.5 * tokens) <= count(text) <= tokens for text in texts.values())
    known = [name for name in queries if name.removeprefix("q:") in functions]
    assert len(known) >= 5
    for name in known:
        code, text = functions[name.removeprefix("q:")], texts[answers[name]]
        assert text.count(code) == 1  # whole
        start = count(text[: text.index(code)])
        middle = start + count(code) / 2
        quarter = int(queries[name]["metadata"]["quarter"])
        assert tokens * (quarter - 1) / 4 - 60 <= middle <= tokens * quarter / 4  # less than a line is missing before


def test_no_module_is_trained_on_and_asked_for(built: Path) -> None:
    modules = {line["split"]: set(line["modules"]) for line in lines(built / "modules.jsonl")}
    assert not modules["train"] & modules["evaluation"]
    assert set(search(built, "long-256")[0]) <= modules["evaluation"]
    rows = lines(built / "train.jsonl")
    passages = [row["pos"][0] for row in rows]
    assert len(passages) > len(set(passages))  # asked for with whole queries and with unshared ones
    assert {len(row["pos"]) for row in rows} == {1}
    assert not set(passages) & set(search(built, "short")[0].values())


def test_equal_packages_give_equal_bytes(built: Path, tmp_path: Path) -> None:
    again = build(NAME, tmp_path)
    files = {path.relative_to(built): path for path in built.rglob("*") if path.is_file() and path.name != "BUILT.json"}
    assert len(files) > 30
    assert all((again / name).read_bytes() == path.read_bytes() for name, path in files.items())
    shutil.rmtree(again)


def test_a_document_goes_on_where_a_quarter_was_short_and_takes_no_function_twice() -> None:
    def function(name: str, *sizes: int) -> tuple[Line, ...]:
        return tuple(Line(f"{name}{at}", size) for at, size in enumerate(sizes))

    pair = Pair("what", Function("m", "f", "", None))
    own = {pair.function.id: function("own", 10)}
    others = tuple(function(letter, 5, 5, 5) for letter in "abcdefgh")
    text = document(Asked("m", {2: pair}, others), own, 100)
    names = text.split()
    # 25 tokens a quarter: a whole and two lines of b; the third quarter has the evidence and three lines around it.
    assert names[:5] == ["a0", "a1", "a2", "b0", "b1"]
    assert len(set(names)) == len(names)
    sizes = [10 if name == "own0" else 5 for name in names]
    assert sum(sizes) == 100
    assert 50 <= sum(sizes[: names.index("own0")]) <= 65
    assert tokens_of(own["m:f"]) == 10


@pytest.mark.parametrize(
    ("query", "code", "left"),
    [
        ("Parses the header lines.", "def read(self): return parser(line)", "the header"),
        ("Open a file-like object", "def load(path_name): file()", "Open a object"),
        ("Return HTTPServer names", "class HttpServer: pass", "Return names"),
    ],
)
def test_words_are_struck_in_any_form(query: str, code: str, left: str) -> None:
    assert without_shared_words(query, code) == left


def test_a_query_with_too_few_words_left_is_none() -> None:
    pair = Pair("Read all bytes of the stream", Function("m", "f", "def f(stream): return stream.read()", None))
    kept = unshared(pair, words=1)
    assert kept is not None
    assert kept.query == "all bytes of the"
    assert unshared(pair, words=2) is None
