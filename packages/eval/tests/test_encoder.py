"""The model as MTEB sees it, and public reports of evaluations gone wrong: what each of them tried must be right."""

from __future__ import annotations

from importlib import import_module

import mteb
import numpy as np
import pytest

from lmk_core import Embedder, PoolingConfig
from lmk_eval import EmbedderEncoder, Settings, Suite, Task
from lmk_eval.encoders import PromptError, Prompts

TASKS = [("NFCorpus", "Retrieval")]
TEXTS = ["river", "", "stone house light water garden window " * 12, "letter morning", "winter music bridge " * 5, "of"]


def encoded(embedder: Embedder, texts: list[str], **more) -> np.ndarray:
    encoder = EmbedderEncoder(embedder, "lmk/model", "0123", **{"max_length": 64, **more})
    return encoder.encode([{"text": texts}])


@pytest.fixture
def landmark(tiny_model) -> Embedder:
    return Embedder.from_pretrained(tiny_model, "landmark", 4, 64)


# Prompts (mteb #2867, #1912, #1753: ignored, or with a wrong key, and nobody was told).


def test_there_are_no_prompts_unless_they_are_given(run, toy_folder, make_oracle, tmp_path):
    model = make_oracle()
    run(model, Suite.from_folder("toy", toy_folder), tmp_path / "out")
    assert all(text in model.vectors for text in model.encoded), "the texts as they are"
    assert Prompts({}, TASKS).digest is None


@pytest.mark.parametrize("key", ["querry", "passage", "NFCorpus-passage", "Clustering", "query-NFCorpus", "NFCorpus-"])
def test_a_prompt_that_no_task_uses_is_an_error(run, toy_folder, make_oracle, tmp_path, key):
    with pytest.raises(PromptError, match=rf"no task uses the prompt '{key}'; valid keys: query, document, local\.toy"):
        run(make_oracle(), Suite.from_folder("toy", toy_folder), tmp_path, settings=Settings(prompts={key: "x"}))


def test_the_most_special_prompt_wins():
    class Metadata:
        name, type = "NFCorpus", "Retrieval"

    keys = ["NFCorpus-query", "NFCorpus", "Retrieval-query", "Retrieval", "query"]
    for first in range(len(keys)):
        prompts = Prompts({key: f"{key}: " for key in keys[first:]}, TASKS)
        assert prompts.of(Metadata, mteb.types.PromptType.query) == f"{keys[first]}: "
    assert Prompts({"query": "q", "document": "d"}, TASKS).of(Metadata, mteb.types.PromptType.document) == "d"
    assert Prompts({"query": "q"}, TASKS).of(Metadata, None) == ""


def test_prompts_are_part_of_what_results_are_of(run, tiny_model, toy_folder, tmp_path):
    suite, pooling = Suite.from_folder("toy", toy_folder), PoolingConfig("mean")
    settings = Settings(prompts={"query": "river stone house: ", "document": "of the "})
    plain = run(tiny_model, suite, tmp_path / "out", pooling=pooling)
    with_prompts = run(tiny_model, suite, tmp_path / "out", pooling=pooling, settings=settings)
    assert with_prompts != plain
    assert run(tiny_model, suite, tmp_path / "out", pooling=pooling) == plain
    assert len(list((tmp_path / "out" / "results").rglob("local.toy.json"))) == 2


# MTEB's own mock tasks.


def text_mocks() -> dict[str, type]:
    from mteb.mocks import MOCK_TASK_REGISTRY

    return {name: task for name, task in MOCK_TASK_REGISTRY.items() if task.metadata.modalities == ["text"]}


def test_every_mock_text_task_runs_and_its_file_opens_with_mtebs_loader(run, tiny_model, tmp_path, monkeypatch):
    mocks = text_mocks()
    assert len(mocks) > 20
    for name, task in mocks.items():
        monkeypatch.setitem(import_module("mteb.get_tasks")._TASKS_REGISTRY, name, task)
    suite = Suite(name="mocks", tasks=tuple(Task(name=name, mteb=name) for name in mocks))
    embedder = Embedder.from_pretrained(tiny_model, "landmark", 4, 64)
    scores = run(embedder, suite, tmp_path / "out")
    assert list(scores) == list(mocks)
    assert all(np.isfinite(list(values.values())).all() and "main_score" in values for values in scores.values())
    files = {path.stem: path for path in (tmp_path / "out" / "results").rglob("*Mock*.json")}
    assert set(files) == set(mocks)
    for name, path in files.items():
        result = mteb.TaskResult.from_disk(path)
        assert result.task_name == name
        assert set(result.scores) == set(mocks[name].metadata.eval_splits)
    cache = mteb.ResultCache(tmp_path / "out")
    loaded = cache.load_results(models=["lmk/model"], tasks=list(mocks), load_experiments=True)
    assert [len(model.task_results) for model in loaded.model_results] == [len(mocks)]


def test_ranks_as_mtebs_own_search_does(run, tiny_model, random_set, tmp_path):
    """The same model as a plain encoder, which MTEB searches with its own code."""

    class Plain(EmbedderEncoder):
        index = search = None

    folder, _, _, _ = random_set
    embedder = Embedder.from_pretrained(tiny_model, "landmark", 4, 64)
    suite = Suite.from_folder("random", folder)
    own = run(embedder, suite, tmp_path / "own", settings=Settings(shard_texts=7))["random"]
    encoder = Plain(embedder, "lmk/model", "0123", max_length=64)
    (task,) = __import__("lmk_eval.tasks", fromlist=["open_task"]).open_task(suite.tasks[0])
    result = mteb.evaluate(
        encoder, task, cache=None, encode_kwargs={"batch_size": 8}, show_progress_bar=False, co2_tracker=False
    )
    (theirs,) = result.task_results[0].scores["test"]
    assert {name: theirs[name] for name in own} == pytest.approx(own, abs=1e-5)


def test_documents_are_read_as_mtebs_loader_reads_them():
    from datasets import Dataset
    from mteb._create_dataloaders import create_dataloader
    from mteb.types import PromptType

    from lmk_eval.encoders.documents import document_characters, document_ids, document_texts, rows_of

    corpus = Dataset.from_dict(
        {"id": ["a", "b", "c", "d"], "title": ["T", "", " ", "é"], "text": [" x ", " y ", "", "zz"]}
    )
    loader = create_dataloader(
        corpus, task_metadata=mteb.get_task("NFCorpus").metadata, prompt_type=PromptType.document
    )
    assert document_texts(corpus, range(4)) == [text for batch in loader for text in batch["text"]]
    assert document_texts(corpus.remove_columns("title"), range(1, 3)) == ["y", ""]
    assert document_characters(corpus).tolist() == [4, 3, 1, 3]
    assert document_ids(corpus, np.array([3, 0])) == ["d", "a"]
    assert rows_of(corpus, ["d", "b", "none"]) == {"d": 3, "b": 1}
    assert document_ids(corpus, np.array([], dtype=np.int64)) == []


# Padding, truncation, special tokens, order.


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_tokenizers_padding_side_does_not_matter(landmark, tiny_model, side):  # sentence-transformers #3208
    wanted = encoded(landmark, TEXTS)
    for kind in ("landmark", "cls", "mean"):
        embedder = landmark.with_pooling(PoolingConfig(kind))
        before = encoded(embedder, TEXTS)
        embedder.tokenizer.hf_tokenizer.padding_side = side
        embedder.tokenizer.hf_tokenizer.truncation_side = side
        assert np.array_equal(encoded(embedder, TEXTS), before)
    assert np.array_equal(encoded(landmark, TEXTS), wanted)


@pytest.mark.parametrize("granularity", [3, 4, 8, 100])
def test_a_text_that_is_cut_ends_in_what_is_pooled(landmark, granularity):  # mteb #3217, #5237
    tokenizer = landmark.with_granularity(granularity).tokenizer
    budget = tokenizer.with_pooling(PoolingConfig("landmark", granularity=granularity, overflow="budget"))
    plain = tokenizer.with_pooling(PoolingConfig("mean"))
    for length in (8, 16, 33):
        (layout,) = budget.layouts([TEXTS[2]], max_length=length)
        assert len(layout) <= length
        assert layout.input_ids[-1] == tokenizer.tokens.landmark
        assert layout.pooled[-1] == len(layout) - 1
        (cut,) = plain.layouts([TEXTS[2]], max_length=length)
        assert (len(cut), cut.input_ids[-1]) == (length, tokenizer.tokens.landmark)


def test_a_pad_that_is_the_landmark(tiny_model, landmark):  # Qwen3-Embedding #122
    wanted = encoded(landmark, TEXTS)
    landmark.tokenizer.hf_tokenizer.pad_token = landmark.tokenizer.hf_tokenizer.sep_token
    same = Embedder(landmark.module, landmark.tokenizer.with_pooling(landmark.pooling))
    assert same.tokenizer.tokens.pad == same.tokenizer.tokens.landmark
    assert np.allclose(encoded(same, TEXTS), wanted, atol=1e-6)


@pytest.mark.parametrize("granularity", [32, 128, 256])
@pytest.mark.parametrize("tokens", [125, 126, 127, 128])
def test_queries_around_the_longest(tiny_model, granularity, tokens):  # llm2vec #68, sentence-transformers #2816
    embedder = Embedder.from_pretrained(tiny_model, "landmark", granularity, 128)
    text = " ".join(["river"] * tokens)
    while len(embedder.tokenizer.tokenize([text], max_length=512)[0]) > tokens:
        text = text.rpartition(" ")[0]
    (layout,) = embedder.tokenizer.layouts([text])
    assert len(layout) <= 128
    assert layout.pooled
    assert all(layout.input_ids[place] == embedder.tokenizer.tokens.landmark for place in layout.pooled)
    alone = encoded(embedder, [text], max_length=128)
    assert np.allclose(alone, encoded(embedder, [*TEXTS, text], max_length=128)[-1:], atol=1e-6)


@pytest.mark.parametrize("kind", ["landmark", "cls", "mean", "mean_at_k", "multi_cls"])
def test_a_text_alone_and_among_others(landmark, kind):  # sentence-transformers #2312, #3197, #2839
    embedder = landmark.with_pooling(PoolingConfig(kind))
    texts = [f"{text} {number}" for number, text in enumerate(TEXTS * 11)][:64]
    together = encoded(embedder, texts, batch_tokens=4096)
    assert together.dtype == np.float32
    for batch_tokens in (64, 333):
        assert np.allclose(encoded(embedder, texts, batch_tokens=batch_tokens), together, atol=2e-6)
    assert np.allclose(encoded(embedder, texts[::-1])[::-1], together, atol=2e-6)
    alone = np.concatenate([encoded(embedder, [text]) for text in texts])
    assert np.allclose(alone, together, atol=2e-6)


def test_bfloat16_weights_stay_near(run, tiny_model, toy_folder, tmp_path):
    suite, pooling = Suite.from_folder("toy", toy_folder), PoolingConfig("mean")
    run(tiny_model, suite, tmp_path / "out", pooling=pooling)
    run(tiny_model, suite, tmp_path / "out", pooling=pooling, settings=Settings(weights="bfloat16"))
    files = list((tmp_path / "out" / "results").rglob("local.toy.json"))
    assert len(files) == 2, "kept apart"
    half = Embedder.from_pretrained(tiny_model, pooling, dtype="bfloat16")
    full = Embedder.from_pretrained(tiny_model, pooling)
    same = (encoded(half, TEXTS) * encoded(full, TEXTS)).sum(axis=1)
    assert same.min() > 0.99


@pytest.mark.parametrize("kind", ["cls", "mean"])
def test_saved_and_read_by_sentence_transformers(tiny_model, tmp_path, kind):  # omlx #2594, mlx-embeddings #63
    """What a plain Sentence Transformers model of these files gives is what is evaluated here."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    saved = Embedder.from_pretrained(tiny_model, kind, max_length=64).save_pretrained(tmp_path / "model")
    transformer = Transformer(str(saved), max_seq_length=64)
    pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode=kind)
    theirs = SentenceTransformer(modules=[transformer, pooling], device="cpu").encode(TEXTS, normalize_embeddings=True)
    assert np.allclose(encoded(Embedder.from_pretrained(saved), TEXTS), theirs, atol=1e-5)


# How far an evaluation is.


def test_the_time_left_can_be_told_from_the_beginning(landmark):
    """Long texts come first: after half of the characters half of the texts count as done, not the few long ones."""
    texts = ["river stone house light " * 10] * 10 + ["river"] * 390
    told: list[int] = []
    encoder = EmbedderEncoder(landmark, "lmk/model", "0123", max_length=64, batch_tokens=64)
    encoder.encoding(texts, told.append)
    characters = 10 * (240 + 1) + 390 * (5 + 1)
    assert sum(told) == len(texts)
    assert sum(told[:10]) == pytest.approx(400 * 10 * 241 / characters, abs=1), "the ten long texts, a batch each"
    assert min(told) >= 0


# Real sets.


@pytest.mark.parametrize("name", ["msmarco-dl19-20", "wiki-long-en", "debian-desc", "xquad", "manpages-long"])
def test_real_sets_from_end_to_end(run, tiny_model, reference_data, tmp_path, name):
    """English, multilingual and long, at a few tokens: plumbing, not quality."""
    embedder = Embedder.from_pretrained(tiny_model, "landmark", 4, 16)
    suite = Suite.from_folder(name, reference_data / "ir" / name)
    scores = run(embedder, suite, tmp_path / "out", max_length=16)[name]
    assert 0 <= scores["ndcg_at_10"] <= 1
    assert scores["recall_at_100"] > 0
