"""How long landmark tokenization takes beside the plain call of the fast tokenizer on the same texts.

Run: ``python benchmarks/layout.py [repetitions] [tokenizer...]``. Texts are cut at random places, from a fixed seed, of
the book in the reference data where that is (``../shared`` or ``LMK_SHARED``), else of made-up words; the tokenizers
are those named (folders or names), else the reference data's, else one that is trained here. What is compared runs in
turn, in one process; a ratio is of medians, its spread the quartiles of the ratios of neighbouring runs. Times are
wall seconds, and where it says so processor seconds of all threads, which other programs on the machine change less.
"""

from __future__ import annotations

import gzip
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from lmk_core import LandmarkTokenizer

SHARED = Path(os.environ.get("LMK_SHARED", Path(__file__).parents[2] / "shared")) / "data"
SIZES = [32, 64, 128, 256]
# (name, characters of a text, texts, max_length)
CORPORA = [("short", 60, 2000, 64), ("512", 2400, 150, 512), ("8k", 38_000, 10, 8192)]
# (title, what is measured, beside what, by which clock)
COLUMNS = [
    ("landmarks / plain", "landmarks", "plain", "wall"),
    ("the same, processor", "landmarks", "plain", "processor"),
    ("landmarks / backend", "landmarks", "backend", "processor"),
    ("padded / plain padded", "padded", "plain padded", "wall"),
    ("loop / landmarks", "loop", "landmarks", "processor"),
    ("inserting only", "loop inserting", "inserting", "processor"),
    ("4 sizes at once / apart", "4 sizes", "4 calls", "processor"),
]


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    print(f"TOKENIZERS_PARALLELISM={os.environ.get('TOKENIZERS_PARALLELISM', 'unset')}, {os.cpu_count()} processors")
    book = read_book()
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:] or tokenizers(Path(folder), book):
            tokenizer = AutoTokenizer.from_pretrained(name)
            print(f"\n{Path(name).name}")
            print(" " * 6 + "".join(f"{title:>25}" for title, *_ in COLUMNS))
            for corpus, characters, count, max_length in CORPORA:
                report(corpus, tokenizer, cut(book, characters, count), max_length, repetitions)


def report(corpus: str, tokenizer: Any, texts: list[str], max_length: int, repetitions: int) -> None:
    """One line: the ratios on one corpus."""
    landmarks = LandmarkTokenizer(tokenizer, SIZES[0], max_length)

    def every_size() -> None:
        once = landmarks.tokenize(texts)
        for size in SIZES:
            landmarks.lay_out(once, granularity=size)

    tokenized = landmarks.tokenize(texts)
    ids = [own.tolist() for own in (tokenized[row] for row in range(len(texts)))]
    assert [layout.input_ids for layout in landmarks.layouts(texts)] == loop(tokenizer, texts, SIZES[0], max_length)
    times = measure(
        {
            "plain": lambda: tokenizer(texts, truncation=True, max_length=max_length),
            "landmarks": lambda: landmarks.layouts(texts),
            "backend": lambda: backend(tokenizer, texts),
            "loop": lambda: loop(tokenizer, texts, SIZES[0], max_length),
            "inserting": lambda: landmarks.lay_out(tokenized),
            "loop inserting": lambda: insert(tokenizer, ids, SIZES[0], max_length),
            "plain padded": lambda: tokenizer(
                texts, truncation=True, max_length=max_length, padding=True, return_tensors="pt"
            ),
            "padded": lambda: landmarks(texts),
            "4 calls": lambda: [landmarks.layouts(texts, granularity=size) for size in SIZES],
            "4 sizes": every_size,
        },
        repetitions,
    )
    cells = [ratio(times[clock], name, other) for _, name, other, clock in COLUMNS]
    print(f"{corpus:6}" + "".join(f"{cell:>25}" for cell in cells))


def loop(tokenizer: Any, texts: list[str], size: int, max_length: int) -> list[list[int]]:
    """One text after the other, as most would write it."""
    every = [tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False) for text in texts]
    return insert(tokenizer, [encoded["input_ids"] for encoded in every], size, max_length)


def insert(tokenizer: Any, texts: list[list[int]], size: int, max_length: int) -> list[list[int]]:
    """Landmarks between the chunks of ids, in lists."""
    out = []
    for ids in texts:
        own = [] if first_id(tokenizer) is None else [first_id(tokenizer)]
        for start in range(0, len(ids), size):
            own.extend(ids[start : start + size])
            own.append(last_id(tokenizer))
        out.append(own[:max_length])
    return out


def backend(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    """The least that there is: the backend's fastest call, without cutting, special tokens, or masks."""
    tokenizer.backend_tokenizer.no_truncation()
    encodings = tokenizer.backend_tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


def first_id(tokenizer: Any) -> int | None:
    return tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id


def last_id(tokenizer: Any) -> int:
    return tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id


def measure(functions: dict[str, Callable[[], object]], repetitions: int) -> dict[str, dict[str, list[float]]]:
    """Seconds of each function by each clock, all of them in turn, the order reversed every other time."""
    clocks = {"wall": time.perf_counter, "processor": time.process_time}
    times: dict[str, dict[str, list[float]]] = {clock: {name: [] for name in functions} for clock in clocks}
    for number in range(repetitions + 1):
        for name in list(functions) if number % 2 else reversed(functions):
            started = {clock: now() for clock, now in clocks.items()}
            functions[name]()
            if number:  # the first round warms caches
                for clock, now in clocks.items():
                    times[clock][name].append(now() - started[clock])
    return times


def ratio(times: dict[str, list[float]], name: str, other: str) -> str:
    neighbours = [mine / its for mine, its in zip(times[name], times[other], strict=True)]
    low, _, high = statistics.quantiles(neighbours, n=4)
    return f"{statistics.median(times[name]) / statistics.median(times[other]):.2f} ({low:.2f} to {high:.2f})"


def read_book() -> str:
    path = SHARED / "longtext" / "en_pride_and_prejudice.txt"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    print("no reference data: made-up words")
    generator = random.Random(0)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(generator.choices(letters, k=generator.randint(1, 9))) for _ in range(3000)]
    return " ".join(generator.choices(words, k=80_000))


def cut(book: str, characters: int, count: int) -> list[str]:
    generator = random.Random(characters)
    starts = [generator.randrange(len(book) - characters) for _ in range(count)]
    return [book[start : start + generator.randint(characters // 2, characters)] for start in starts]


def tokenizers(folder: Path, book: str) -> list[str]:
    """The reference data's tokenizers, unpacked into ``folder``; else one that is trained here."""
    sources = [path for path in sorted((SHARED / "tokenizers").glob("*")) if path.name != "golden"]
    for source in sources:
        (folder / source.name).mkdir()
        for file in source.iterdir():
            content = file.read_bytes()
            packed = file.suffix == ".gz"
            (folder / source.name / (file.stem if packed else file.name)).write_bytes(
                gzip.decompress(content) if packed else content
            )
    if not sources:
        train(book).save_pretrained(folder / "trained-here")
    return [str(path) for path in sorted(folder.iterdir())]


def train(book: str) -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    tokenizer.train_from_iterator([book], trainers.BpeTrainer(vocab_size=8000, special_tokens=special))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]"
    )


if __name__ == "__main__":
    main()
