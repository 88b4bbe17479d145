"""Lengths, position, geometry and cost: right values on small material, and files that are whole."""

from __future__ import annotations

import csv
import hashlib
import json
from functools import partial

import numpy as np
import pytest
from transformers import AutoTokenizer

from lmk_core import Embedder
from lmk_eval.analyses import (
    Analysis,
    AnalysisError,
    Series,
    analyse_cost,
    analyse_geometry,
    analyse_lengths,
    analyse_position,
    write_analysis,
)
from lmk_eval.analyses.geometry import effective_rank, mean_cosine, uniformity
from lmk_eval.analyses.lengths.count import histogram
from lmk_eval.analyses.position import length_groups, position_groups
from lmk_eval.tasks.folder import TaskDataError, read_folder

WORDS = ["the", "river", "stone", "house", "light", "water", "garden", "window", "letter", "morning", "winter"]


def text_of(words: int, seed: int = 0) -> str:
    return " ".join(np.random.default_rng(seed).choice(WORDS, words))


@pytest.fixture
def tokenizer(tiny_model):
    return AutoTokenizer.from_pretrained(tiny_model)


@pytest.fixture
def series(tiny_model) -> list[Series]:
    return [
        Series("first", Embedder.from_pretrained(tiny_model, "cls", max_length=64)),
        Series("landmarks", Embedder.from_pretrained(tiny_model, granularity=8, max_length=64)),
    ]


def test_lengths_count_special_tokens_and_what_is_cut(tokenizer) -> None:
    texts = [text_of(count) for count in (1, 5, 20, 60)]
    counts = [len(tokenizer(text)["input_ids"]) for text in texts]
    analysis = analyse_lengths({"mine": iter(texts)}, tokenizer, [counts[2] - 1, counts[2]])
    (line,) = analysis.summary
    assert (line["texts"], line["shortest"], line["longest"], line["tokens"]) == (4, counts[0], counts[3], sum(counts))
    below, at = analysis.tables["cut"]
    assert below["texts_cut"] == 0.5
    assert at["texts_cut"] == 0.25  # a text of exactly the maximum is whole
    assert at["tokens_lost"] == pytest.approx((counts[3] - counts[2]) / sum(counts))
    assert sum(row["texts"] for row in analysis.tables[""]) == 4
    assert sum(row["share"] for row in analysis.tables[""]) == pytest.approx(1)


def test_a_bin_ends_with_its_right_edge() -> None:
    assert histogram(np.array([1, 16, 17, 32, 33]), [0, 16, 32, 64]).tolist() == [2, 2, 1]


def test_no_text_is_said_with_the_name_of_the_data(tokenizer) -> None:
    with pytest.raises(AnalysisError, match=r"empty\.jsonl: there is no text"):
        analyse_lengths({"empty.jsonl": []}, tokenizer)


def test_effective_rank_counts_directions() -> None:
    assert effective_rank(np.eye(6)) == pytest.approx(6)
    assert effective_rank(np.repeat(np.eye(6)[:1], 5, axis=0)) == pytest.approx(1)
    assert effective_rank(np.concatenate([np.eye(6)[:2]] * 4)) == pytest.approx(2)
    # Shares 3/4 and 1/4.
    wanted = np.exp(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)))
    assert effective_rank(np.diag([3.0, 1.0])) == pytest.approx(wanted)


def test_uniformity_and_cosine_are_means_over_pairs(monkeypatch) -> None:
    monkeypatch.setattr("lmk_eval.analyses.geometry.measure._BLOCK", 4)
    vectors = np.random.default_rng(0).normal(size=(11, 5))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = [(vectors[a], vectors[b]) for a in range(11) for b in range(a)]
    distances = np.array([np.sum((one - other) ** 2) for one, other in pairs])
    assert uniformity(vectors) == pytest.approx(np.log(np.exp(-2 * distances).mean()))
    assert mean_cosine(vectors) == pytest.approx(np.mean([one @ other for one, other in pairs]))
    assert uniformity(np.ones((3, 1))) == pytest.approx(0)


def test_geometry_of_several_models(series) -> None:
    analysis = analyse_geometry(series, (text_of(12, seed) for seed in range(30)), limit=20)
    assert [line["series"] for line in analysis.summary] == ["first", "landmarks"]
    for one, line in zip(series, analysis.summary, strict=True):
        vectors = one.embedder.encode([text_of(12, seed) for seed in range(20)])
        assert line["effective_rank"] == pytest.approx(effective_rank(vectors), rel=1e-3)
        assert line["texts"] == 20
        assert sum(
            row["share_of_singular_values"] for row in analysis.tables[""] if row["series"] == one.name
        ) == pytest.approx(1)
    with pytest.raises(AnalysisError, match="two at least"):
        analyse_geometry(series, ["one"])


def test_cost_counts_every_landmark(tiny_model) -> None:
    embedder = Embedder.from_pretrained(tiny_model, "cls", max_length=4096)
    texts = [text_of(100, seed) for seed in range(3)]
    plain = [len(ids) for ids in embedder.tokenizer.hf_tokenizer(texts)["input_ids"]]
    analysis = analyse_cost([Series("one", embedder)], texts, [8, 16], rounds=1)
    none, eight, sixteen = analysis.tables[""]
    assert (none["granularity"], none["tokens"], none["extra_tokens"]) == (None, sum(plain), 0)
    for row, size in ((eight, 8), (sixteen, 16)):
        landmarks = sum(-(-(length - 2) // size) for length in plain)
        assert row["landmarks"] == landmarks
        assert row["tokens"] == sum(plain) - 3 + landmarks  # CLS stays, SEP is the last landmark
        assert row["extra_tokens"] == pytest.approx((landmarks - 3) / sum(plain))
        assert row["text_lost"] == 0
        assert row["seconds"] > 0


def test_cost_tells_the_text_that_no_longer_fits(tiny_model) -> None:
    embedder = Embedder.from_pretrained(tiny_model, "cls", max_length=50)
    none, eight = analyse_cost([Series("one", embedder)], [text_of(200)], [8], rounds=0).tables[""]
    assert (none["text_tokens"], none["tokens"]) == (48, 50)
    (layout,) = embedder.with_pooling(Embedder.from_pretrained(tiny_model, granularity=8).pooling).tokenizer.layouts(
        [text_of(200)]
    )
    kept = len(layout) - 1 - len(layout.pooled)
    assert (eight["tokens"], eight["text_tokens"]) == (50, kept)
    assert eight["text_lost"] == pytest.approx(1 - kept / 48)
    assert "seconds" not in eight


def test_position_groups_the_scores_of_an_evaluation(tmp_path, make_folder, series) -> None:
    sentences = [text_of(12, seed) for seed in range(12)]
    documents = {f"d{n}": " ".join(sentences[4 * n : 4 * n + 4]) for n in range(3)}
    queries = {f"q{n}": (sentence, {"place": (n % 4 + 0.5) / 4}) for n, sentence in enumerate(sentences)}
    relevant = [(f"q{n}", f"d{n // 4}", 1) for n in range(12)]
    folder = make_folder(tmp_path / "long", documents, queries, relevant)
    analysis = analyse_position(series, folder, position_key="place", bins=4, max_length=64)
    for one in series:
        rows = [row for row in analysis.tables[""] if row["series"] == one.name]
        assert [row["group"] for row in rows] == ["0–0.25", "0.25–0.5", "0.5–0.75", "0.75–1"]
        assert [row["queries"] for row in rows] == [3] * 4
        (line,) = [line for line in analysis.summary if line["series"] == one.name]
        assert np.mean([row["ndcg_at_10"] for row in rows]) == pytest.approx(line["ndcg_at_10"])
        (longs,) = [row for row in analysis.tables["length"] if row["series"] == one.name]
        assert longs["ndcg_at_10"] == pytest.approx(line["ndcg_at_10"])
    # The same without a key: the queries stand in their documents.
    data = read_folder(folder)
    by_key, by_text = position_groups(data, "place", 4), position_groups(data, None, 4)
    assert by_text is not None
    assert by_text.members == by_key.members
    assert position_groups(read_folder(make_folder(tmp_path / "other")), None, 4) is None


def test_values_that_are_no_fractions_are_groups(toy_folder) -> None:
    data = read_folder(toy_folder)
    groups = position_groups(data, "quarter", 8)
    assert groups.labels == ("1", "2", "3", "4")
    assert groups.members == (("q0", "q4"), ("q1",), ("q2",), ("q3",))
    with pytest.raises(AnalysisError, match="no query of the split has the metadata key 'plce'; found: quarter"):
        position_groups(data, "plce", 8)


def test_lengths_double_and_empty_groups_are_left_out() -> None:
    groups = length_groups({"a": 5, "b": 128, "c": 129, "d": 2000})
    assert groups.labels == ("0–128", "128–256", "1k–2k")
    assert groups.members == (("a", "b"), ("c",), ("d",))


def test_a_folder_that_is_none_is_said_before_the_work(tmp_path, series) -> None:
    with pytest.raises(TaskDataError, match="no such folder"):
        analyse_position(series, tmp_path / "none")


def small(number: float = 0.5) -> Analysis:
    from matplotlib.figure import Figure

    rows = [{"series": "a,b", "value": number}, {"series": "ü", "value": None}]
    return Analysis("small", {"": rows, "more": rows}, [{"mean": number}], {"texts": 2}, Figure)


def test_all_files_are_written_and_the_last_says_which(tmp_path) -> None:
    folder = tmp_path / "out" / "here"
    paths = write_analysis(small(), folder)
    assert [path.name for path in paths] == ["small.png", "small.svg", "small.csv", "small-more.csv", "small.json"]
    record = json.loads(paths[-1].read_text(encoding="utf-8"))
    assert record["summary"] == [{"mean": 0.5}]
    assert {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in record["files"]} == record[
        "files"
    ]
    with paths[2].open(encoding="utf-8", newline="") as stream:
        assert list(csv.DictReader(stream)) == [{"series": "a,b", "value": "0.5"}, {"series": "ü", "value": ""}]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    before = {path: path.read_bytes() for path in paths}
    write_analysis(small(), folder)
    assert {path: path.read_bytes() for path in paths} == before  # the same numbers give the same bytes


def test_an_error_leaves_what_was_there(tmp_path) -> None:
    paths = write_analysis(small(), tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    before = {path: path.read_bytes() for path in [*paths, tmp_path / "notes.txt"]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_analysis(small(float("nan")), tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    with pytest.raises(AnalysisError, match=r"notes\.txt is a file"):
        write_analysis(small(), tmp_path / "notes.txt" / "out")


def test_every_plot_draws_with_labels(tmp_path, series, tokenizer) -> None:
    from lmk_eval.analyses import analyse_attention, analyse_landmarks
    from lmk_eval.analyses.position.plot import draw_position

    texts = [text_of(80, seed) for seed in range(4)]
    names = [one.name for one in series]
    row = {"group": "1", "ndcg_at_10": 0.5, "standard_error": None, "queries": 2}
    rows = [{"series": name, **row} for name in names]
    found = [
        analyse_lengths({"one": texts, "two": texts[:2]}, tokenizer),
        analyse_attention(series, texts, [32, 64], bins=8),
        analyse_landmarks(series[1:], texts, k=2, min_chunks=6, max_chunks=6),
        analyse_geometry(series, texts),
        analyse_cost(series, texts, [8, 16], rounds=1),
        Analysis("position", {"": rows, "length": rows}, rows, {}, partial(draw_position, names, {"": rows})),
    ]
    for analysis in found:
        figure = analysis.draw()
        assert figure.axes[0].get_ylabel() or figure.get_supylabel(), analysis.kind
        assert figure.axes[-1].get_xlabel(), analysis.kind  # panels above may share it
        for axes in figure.axes:
            assert axes.lines or axes.patches, analysis.kind
        shown = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
        assert {line.get("series", line.get("data")) for line in analysis.summary} <= set(shown), analysis.kind
        write_analysis(analysis, tmp_path / "out")
    assert len(list((tmp_path / "out").glob("*.svg"))) == 6
