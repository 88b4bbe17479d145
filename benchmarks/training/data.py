"""The rows of the two spreads, and the small model that all trainers get."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoTokenizer

sys.path.insert(0, str(Path(__file__).parents[1]))
from encode import SEED, build_model, library_words

# Tokens of the 8,646 passages and 97 queries of the TREC Deep Learning tracks of 2019 and 2020 (MS MARCO, version 1),
# by ModernBERT's tokenizer, special tokens included: the lengths at these shares of the sorted lengths.
_SHARES = (0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1)
_MSMARCO_PASSAGES = (7, 43, 48, 59, 71, 98, 128, 144, 177, 286)
_MSMARCO_QUERIES = (5, 6, 6, 7, 9, 10, 12, 14, 20, 20)
# The log-normal whose shares 0.8 and 0.95 are the 6,711 and 12,593 tokens that are reported for MLDR's English training
# set (github.com/thekirillisupov/FlagEmbedding, README_idp.md); its mean is 4,717, and 4,732 is reported.
_MLDR_LOG_MEAN, _MLDR_LOG_DEVIATION = 8.15, 0.784


@dataclass(frozen=True)
class Spread:
    """Rows of like lengths, and the batch that is made of them."""

    name: str
    batch_size: int
    negatives: int
    query_max_length: int
    passage_max_length: int
    passages: Callable[[random.Random], float]
    """Draws the tokens of a passage."""
    steps: int
    """Steps of one run."""
    counted: int
    """Its last steps, which are measured: where a step is short, the first one also warms up and is left out."""


def _by_shares(lengths: Sequence[int]) -> Callable[[random.Random], float]:
    def draw(drawn: random.Random) -> float:
        share = drawn.random()
        place = max(index for index, start in enumerate(_SHARES[:-1]) if start <= share)
        part = (share - _SHARES[place]) / (_SHARES[place + 1] - _SHARES[place])
        return lengths[place] + part * (lengths[place + 1] - lengths[place])

    return draw


_queries = _by_shares(_MSMARCO_QUERIES)
SPREADS = {
    "short": Spread("short", 32, 7, 128, 512, _by_shares(_MSMARCO_PASSAGES), steps=3, counted=2),
    "long": Spread(
        "long",
        2,
        1,
        128,
        8192,
        lambda drawn: drawn.lognormvariate(_MLDR_LOG_MEAN, _MLDR_LOG_DEVIATION),
        steps=2,
        counted=2,
    ),
}


def words_of(reference: Path | None) -> list[str]:
    """Words to make texts of: of real passages and articles where there is a folder with them, else of sources."""
    if reference is None:
        return library_words()
    files = [reference / "ir" / name / "corpus.jsonl" for name in ("msmarco-dl19-20", "wiki-long-en")]
    return [word for file in files for line in file.open(encoding="utf-8") for word in json.loads(line)["text"].split()]


def make_model(folder: Path, words: list[str]) -> None:
    """The small random ModernBERT of `encode.py` (4 layers of 128, 2 of them local), its tokenizer of ``words``."""
    build_model(folder, words)
    # The name that transformers 4 knows too, and what a ModernBERT takes.
    file = folder / "tokenizer_config.json"
    own = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": ["input_ids", "attention_mask"]}
    file.write_text(json.dumps(json.loads(file.read_text()) | own))


def write_rows(file: Path, spread: Spread, words: list[str], model: Path, rows: int) -> None:
    """Rows as FlagEmbedding has them, all texts different, the same in every run."""
    drawn = random.Random(f"{SEED}-{spread.name}")
    tokenizer = AutoTokenizer.from_pretrained(model)
    sample = words[:: max(1, len(words) // 50_000)]
    words_a_token = len(sample) / len(tokenizer(" ".join(sample), verbose=False)["input_ids"])

    def text(tokens: float) -> str:
        count = max(1, round((min(tokens, spread.passage_max_length * 1.5) - 2) * words_a_token))
        start = drawn.randrange(len(words) - count)
        return " ".join(words[start : start + count])

    with file.open("w", encoding="utf-8") as out:
        for _ in range(rows):
            passages = [text(spread.passages(drawn)) for _ in range(1 + spread.negatives)]
            row = {"query": text(_queries(drawn)), "pos": passages[:1], "neg": passages[1:]}
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
