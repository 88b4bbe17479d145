"""1,000,000 short passages and one text of 32,768 tokens with a tiny model: the peak memory of a whole evaluation.

    python tests/acceptance/million_passages.py FOLDER [--passages 1000000] [--storage float32] [--most-gib 3]
    python tests/acceptance/million_passages.py FOLDER --passages 5000 --plain

With `--plain`, for a number of passages that fits, every query's NDCG@10 is also computed the plain way: all vectors
by one call, all similarities in one matrix. FOLDER keeps the data and the shards: an evaluation that was killed goes
on. The exit code is 1 where the peak is not below `--most-gib`, or the two ways differ. On one busy core: 10 to 20
minutes and 1.2 GiB (0.8 with float16).
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from lmk_core import Embedder, PoolingConfig
from lmk_eval import Settings, Suite, evaluate, read_per_query

_TEXT = (
    "the of and to in river stone house light water garden window letter morning winter music bridge forest mountain "
    "paper silver question answer market captain island engine theory history science language table chair doctor"
)
WORDS = _TEXT.split()
LONG_TOKENS = 32_768
ASKED_EVERY = 307
"""One passage in so many is asked for, with all of its words but the number at its end."""
TOLERANCE = 1e-5


def passages(number: int) -> Iterator[tuple[str, str]]:
    """Id and text of every document; the last one is the long one."""
    draw = random.Random(0)
    for place in range(number):
        yield f"d{place}", f"{' '.join(draw.choice(WORDS) for _ in range(6))} {place}"
    yield "long", " ".join(draw.choice(WORDS) for _ in range(LONG_TOKENS))


def write_set(folder: Path, number: int) -> Path:
    """The documents as a set in BEIR layout, unless it is there."""
    if (folder / "qrels" / "test.tsv").is_file():
        return folder
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    queries, rows = [], ["query-id\tcorpus-id\tscore"]
    with (folder / "corpus.jsonl").open("w") as file:
        for place, (key, text) in enumerate(passages(number)):
            file.write(f"{json.dumps({'_id': key, 'text': text})}\n")
            if place % ASKED_EVERY == 0 and key != "long":
                queries.append(json.dumps({"_id": f"q{place}", "text": text.rpartition(" ")[0]}))
                rows.append(f"q{place}\t{key}\t1")
    (folder / "queries.jsonl").write_text("\n".join(queries))
    (folder / "qrels" / "test.tsv").write_text("\n".join(rows))
    return folder


def write_model(folder: Path) -> Path:
    """A random ModernBERT of width 16 with a byte-level tokenizer, unless it is there."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import ModernBertConfig, ModernBertModel, PreTrainedTokenizerFast

    if (folder / "config.json").is_file():
        return folder
    special = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"]
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator([" ".join(WORDS)] * 5, trainer)
    pair = [("[CLS]", 1), ("[SEP]", 2)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=pair)
    names = {f"{name.strip('[]').lower()}_token": name for name in special}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    config = ModernBertConfig(
        vocab_size=512,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        initializer_range=0.05,  # nearly a bag of words, so that some queries find their passage and some do not
        max_position_embeddings=LONG_TOKENS,
        pad_token_id=0,
        cls_token_id=1,
        sep_token_id=2,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(0)
    ModernBertModel(config).save_pretrained(folder)
    return folder


def the_plain_way(model: Path, folder: Path, number: int) -> dict[str, float]:
    """Each query's NDCG@10, its one relevant document at its place among all."""
    embedder = Embedder.from_pretrained(model, PoolingConfig("mean"), max_length=LONG_TOKENS)
    documents = embedder.encode([text for _, text in passages(number)])
    asked = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    similarity = embedder.encode([one["text"] for one in asked]) @ documents.T
    found = {}
    for one, row in zip(asked, similarity, strict=True):
        rank = int((row > row[int(one["_id"][1:])]).sum()) + 1
        found[one["_id"]] = 1 / float(np.log2(rank + 1)) if rank <= 10 else 0.0
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Evaluate, and say the peak."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--storage", choices=("float32", "float16", "bfloat16"), default="float32")
    parser.add_argument("--most-gib", type=float, default=3.0)
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    folder, model = write_set(given.folder / "set", given.passages), write_model(given.folder / "model")
    started = time.monotonic()
    scores = evaluate(
        model,
        Suite.from_folder("set", folder),
        folder=given.folder / "out",
        name="acceptance/tiny",
        revision="1",
        max_length=LONG_TOKENS,
        pooling=PoolingConfig("mean"),
        settings=Settings(storage=given.storage),
    )["set"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{given.passages} passages: {time.monotonic() - started:.0f} s, peak {peak:.2f} GiB, {json.dumps(scores)}")
    differs = 0.0
    if given.plain:
        own, plain = read_per_query(given.folder / "out", "set"), the_plain_way(model, folder, given.passages)
        differs = max(abs(own[query] - plain[query]) for query in plain)
        mean = sum(plain.values()) / len(plain)
        print(f"the plain way: NDCG@10 {mean:.6f}, largest difference of a query {differs:.1e}")
    return int(peak >= given.most_gib or differs > TOLERANCE)


if __name__ == "__main__":
    raise SystemExit(main())
