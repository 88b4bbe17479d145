"""Passkeys and needles at 256 to 32,768 tokens: an oracle finds all of them, an untrained encoder finds them by chance.

    python tests/acceptance/passkey.py --text BOOK.txt --tokenizer FOLDER [--seeds 2] [--lengths 256,512]

The encoder is a real ModernBERT of random weights (width 16, two layers with local attention, so that 32,768 tokens
cost little; `--tokenizer`'s vocabulary), read by its CLS token, by the mean, and by landmarks; every text is tokenized
once for all three. The oracle knows the names that can be hidden. Each length asks 50 queries over 100 documents, so
chance is 1 in 100: of 50 queries 0 to 4 hits, of 400 queries 0 to 12 (more have a probability below 0.0005).

A mean over the vectors of a text is a bag of words even where no weight was trained: at the shortest lengths it may
find more than chance. The CLS token of random weights knows next to nothing of its text; it is what is held against
chance. The exit code is 1 where it, or the oracle, gives anything else. On one core: two minutes a seed.
"""

from __future__ import annotations

import argparse
import gzip
import re
import shutil
import tempfile
import time
from collections.abc import Sequence
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lmk_core import PoolingConfig
from lmk_eval import Reading, Suite, Task, evaluate, evaluate_readings
from lmk_eval.haystacks import words
from lmk_eval.suites.task import LENGTHS

CHANCE = 1 / 100
QUERIES = 50
RARE = 0.0005
"""The probability that is left out at the upper end of what is called chance."""
READINGS = {
    "cls": PoolingConfig("cls"),
    "mean": PoolingConfig("mean"),
    "landmark-32": PoolingConfig("landmark", granularity=32),
}
NAMES = [f"{first} {last}" for first in words.FIRST_NAMES for last in words.LAST_NAMES]
_NAME = re.compile(f"(?:{'|'.join(words.FIRST_NAMES)}) (?:{'|'.join(words.LAST_NAMES)})")


class Oracle:
    """A text is the unit vector of the one name that it holds, and zeros where it holds none or several."""

    def encode(self, texts: Sequence[str], *, max_length: int | None = None, batch_tokens: int = 16384) -> np.ndarray:
        """float32 [texts, names]."""
        out = np.zeros((len(texts), len(NAMES)), dtype=np.float32)
        for row, text in enumerate(texts):
            found = set(_NAME.findall(text)) & set(NAMES)
            if len(found) == 1:
                out[row, NAMES.index(found.pop())] = 1
        return out


def most_by_chance(queries: int) -> int:
    """The most hits that are chance: more have a probability below `RARE`.

    >>> most_by_chance(50), most_by_chance(400)
    (4, 12)
    """
    left, hits = 1.0, -1
    while left > RARE:
        hits += 1
        left -= comb(queries, hits) * CHANCE**hits * (1 - CHANCE) ** (queries - hits)
    return hits


def untrained(folder: Path, tokenizer: Path, seed: int) -> Path:
    """A saved ModernBERT of random weights, as training would begin from nothing."""
    from transformers import AutoTokenizer, ModernBertConfig, ModernBertModel

    unpacked = folder / "tokenizer"
    shutil.copytree(tokenizer, unpacked)
    if (packed := unpacked / "tokenizer.json.gz").is_file():
        (unpacked / "tokenizer.json").write_bytes(gzip.decompress(packed.read_bytes()))
    loaded: Any = AutoTokenizer.from_pretrained(unpacked)
    config = ModernBertConfig(
        vocab_size=len(loaded),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=1,
        layer_types=["sliding_attention", "sliding_attention"],
        max_position_embeddings=max(LENGTHS),
        pad_token_id=loaded.pad_token_id,
        cls_token_id=loaded.cls_token_id,
        sep_token_id=loaded.sep_token_id,
        bos_token_id=loaded.cls_token_id,
        eos_token_id=loaded.sep_token_id,
    )
    torch.manual_seed(seed)
    ModernBertModel(config).save_pretrained(folder / "model")
    loaded.save_pretrained(folder / "model")
    return folder / "model"


def hits(scores: dict[str, float], lengths: Sequence[int]) -> list[int]:
    """How many of the queries of each length found their document."""
    return [round(scores[f"precision_at_1[split=test_{length}]"] * QUERIES) for length in lengths]


def _suite(kind: str, text: Path, lengths: tuple[int, ...]) -> Suite:
    task = Task(name=kind, lengths=lengths, group_by="split", **{kind: str(text)})
    return Suite(name=kind, tasks=(task,))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the hits by length; 1 where they are not what they must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    lengths = tuple(int(one) for one in given.lengths.split(","))
    single, all_of = most_by_chance(QUERIES), most_by_chance(QUERIES * len(lengths))
    print(f"chance: {QUERIES * CHANCE} of {QUERIES} hits, 0 to {single}; of all {len(lengths)} lengths 0 to {all_of}")
    print(f"{'':28}{''.join(f'{length:>7}' for length in lengths)}    all")
    bad = 0
    for kind in ("passkey", "needle"):
        suite = _suite(kind, given.text, lengths)
        out = Path(tempfile.mkdtemp())
        scores = evaluate(Oracle(), suite, folder=out, name="oracle", revision="1", max_length=max(LENGTHS))[kind]
        found = hits(scores, lengths)
        bad += scores["main_score"] != 1.0 or found != [QUERIES] * len(lengths)
        _show(f"{kind} oracle", found)
    for seed in range(given.seeds):
        with tempfile.TemporaryDirectory() as folder:
            started = time.monotonic()
            model = untrained(Path(folder), given.tokenizer, seed)
            readings = [Reading(name, name, pooling.to_dict()) for name, pooling in READINGS.items()]
            scored = evaluate_readings(
                model,
                _suite("passkey", given.text, lengths),
                readings,
                folder=Path(folder) / "out",
                name="untrained",
                max_length=max(LENGTHS),
            )
            for name, scores in scored.items():
                found = hits(scores["passkey"], lengths)
                if name == "cls":
                    bad += max(found) > single or sum(found) > all_of
                _show(f"passkey {name}, seed {seed}", found)
            print(f"{time.monotonic() - started:.0f} s", flush=True)
    return int(bad > 0)


def _show(name: str, found: Sequence[int]) -> None:
    print(f"{name:28}{''.join(f'{one:>7}' for one in found)}{sum(found):>7}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
