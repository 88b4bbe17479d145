"""Fixtures: a toy folder in the BEIR layout, a tiny random ModernBERT, an encoder that is told its answers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TEXT = (
    "the of and to in river stone house light water garden window letter morning winter music bridge forest mountain "
    "paper silver question answer market captain island engine theory history science language table chair doctor"
)
WORDS = TEXT.split()

DOCUMENTS = {f"d{number}": f"{' '.join(WORDS[number : number + 3])} document {number}" for number in range(12)}
QUERIES = {f"q{number}": (f"where is {WORDS[number]}", {"quarter": number % 4 + 1}) for number in range(6)}
RELEVANT = [("q0", "d0", 1), ("q1", "d1", 1), ("q2", "d2", 1), ("q2", "d3", 2), ("q3", "d3", 1), ("q4", "d4", 1)]


def write_folder(
    folder: Path,
    documents: Mapping[str, str] = DOCUMENTS,
    queries: Mapping[str, tuple[str, Mapping[str, Any]]] = QUERIES,
    relevant: Iterable[tuple[str, str, int]] = RELEVANT,
    split: str = "test",
) -> Path:
    """Write a folder in the BEIR layout."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    corpus = [json.dumps({"_id": key, "title": "", "text": text}) for key, text in documents.items()]
    (folder / "corpus.jsonl").write_text("\n".join(corpus) + "\n", encoding="utf-8")
    lines = [json.dumps({"_id": key, "text": text, "metadata": meta}) for key, (text, meta) in queries.items()]
    (folder / "queries.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = ["query-id\tcorpus-id\tscore", *(f"{query}\t{document}\t{score}" for query, document, score in relevant)]
    (folder / "qrels" / f"{split}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


class Told:
    """Encodes each text as the vector it was told; counts its calls. `ask(query, document, score)` tells similarities.

    A document is a unit vector of its own, a query the vector of its wanted similarities; cosine keeps their order.
    """

    def __init__(self, documents: Sequence[str], wanted: Mapping[str, Mapping[str, float]]) -> None:
        size = len(documents)
        self.vectors = {text: np.eye(size, dtype=np.float32)[index] for index, text in enumerate(documents)}
        for query, scores in wanted.items():
            vector = np.zeros(size, dtype=np.float32)
            for text, score in scores.items():
                vector[list(documents).index(text)] = score
            self.vectors[query] = vector / np.linalg.norm(vector)
        self.calls: list[list[str]] = []

    def encode(self, texts: Sequence[str], *, max_length: int | None = None, batch_tokens: int = 16384) -> np.ndarray:
        self.calls.append(list(texts))
        return np.stack([self.vectors[text] for text in texts])

    @property
    def encoded(self) -> list[str]:
        """Every text that was encoded, in order."""
        return [text for call in self.calls for text in call]


class Remembering:
    """A recorder that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.steps: list[tuple[int, int, str]] = []

    def event(self, kind: str, **fields: Any) -> None:
        self.events.append({"event": kind, **fields})

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        raise AssertionError("an evaluation reports no metrics by step")

    def progress(self, done: int, total: int, unit: str = "step") -> None:
        self.steps.append((done, total, unit))


def oracle(relevant: Iterable[tuple[str, str, int]] = RELEVANT) -> Told:
    """Ranks every query's relevant documents first, the more relevant the higher."""
    wanted: dict[str, dict[str, float]] = {}
    for query, document, score in relevant:
        wanted.setdefault(QUERIES[query][0], {})[DOCUMENTS[document]] = float(score)
    return Told(list(DOCUMENTS.values()), wanted)


@pytest.fixture
def toy_folder(tmp_path: Path) -> Path:
    """Twelve documents, six queries (five judged), a `quarter` in the metadata."""
    return write_folder(tmp_path / "toy")


@pytest.fixture
def remembering() -> Remembering:
    return Remembering()


@pytest.fixture
def make_folder():
    """`write_folder`, for tests."""
    return write_folder


@pytest.fixture
def make_oracle():
    """`oracle`, for tests."""
    return oracle


@pytest.fixture
def told():
    """`Told`, for tests."""
    return Told


@pytest.fixture
def random_set(tmp_path):
    """30 documents, 20 queries with random similarities (all distinct) and graded judgements."""
    generator = random.Random(5)
    documents = {f"d{number}": f"document {number}" for number in range(30)}
    queries = {
        f"q{number}": (f"query {number}", {"quarter": number % 3 + 1, "even": number % 2 == 0}) for number in range(20)
    }
    relevant = {
        query: {key: generator.choice([0, 1, 1, 2]) for key in generator.sample(list(documents), 4)} | {"d0": 1}
        for query in queries
    }
    similarity = {query: {key: generator.uniform(0.1, 1) for key in documents} for query in queries}
    rows = [(query, key, score) for query, scores in relevant.items() for key, score in scores.items()]
    folder = write_folder(tmp_path / "random", documents, queries, rows)
    wanted = {
        queries[query][0]: {documents[key]: score for key, score in scores.items()}
        for query, scores in similarity.items()
    }
    model = Told(list(documents.values()), wanted)
    return (
        folder,
        model,
        {query: sorted(scores, key=lambda key: -scores[key]) for query, scores in similarity.items()},
        relevant,
    )


@pytest.fixture
def run():
    """`evaluate` with a name, a revision and a length, unless others are given."""
    from lmk_eval import evaluate

    def run(model, suite, folder, **changes):
        settings = {"name": "lmk/model", "revision": "0123-landmark", "max_length": 64, **changes}
        return evaluate(model, suite, folder=folder, **settings)

    return run


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory) -> Path:
    """A saved random ModernBERT of width 16 with two layers and a BPE tokenizer, no pooling of its own."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import ModernBertConfig, ModernBertModel, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([TEXT] * 5, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    folder = tmp_path_factory.mktemp("tiny-model")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        mask_token="[MASK]",
        unk_token="[UNK]",
    ).save_pretrained(folder)
    config = ModernBertConfig(
        vocab_size=512,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        initializer_range=0.5,  # spreads the vectors, so that rankings are no matter of rounding
        pad_token_id=0,
        cls_token_id=1,
        sep_token_id=2,
        bos_token_id=1,
        eos_token_id=2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        ModernBertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def reference_data(shared: Path) -> Path:
    """The reference data's own folder."""
    return shared / "data"
