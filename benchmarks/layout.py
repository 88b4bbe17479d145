"""How long landmark tokenization takes beside the plain call of the fast tokenizer on the same texts.

Run: ``python benchmarks/layout.py [--repetitions N] [--json FILE] [tokenizer...]``. Texts are cut at random places,
from a fixed seed, of the book in the reference data where that is (``../shared`` or ``LMK_SHARED``), else of made-up
words; the tokenizers are those named (folders or names), else the reference data's, else one that is trained here.
The loop tokenizes and inserts one text after the other, as the authors' published code does, and gives the same ids
(checked); so do several granularities from one tokenization and a call for each (checked).
"""

from __future__ import annotations

import gzip
import os
import random
import statistics
import tempfile
from pathlib import Path
from typing import Any

from suite.measuring import Report, interleaved, note, options
from suite.result import Result
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from lmk_core import LandmarkTokenizer
from lmk_core.layouts import Layouts

SHARED = Path(os.environ.get("LMK_SHARED", Path(__file__).parents[2] / "shared")) / "data"
SIZES = [32, 64, 128, 256]
# (name, characters of a text, texts, max_length)
CORPORA = [("short", 60, 2000, 64), ("512", 2400, 150, 512), ("8k", 38_000, 10, 8192)]


def main() -> None:
    parser = options(__doc__, repetitions=5)
    parser.add_argument("tokenizers", nargs="*", help="folders or names; else those of the reference data")
    given = parser.parse_args()
    report = Report(given.json)
    book = read_book()
    with tempfile.TemporaryDirectory() as folder:
        names = given.tokenizers or tokenizers(Path(folder), book)
        for name in names:
            tokenizer = AutoTokenizer.from_pretrained(name)
            first = len(names) == 1 or "modernbert" in name
            for corpus, characters, count, max_length in CORPORA:
                if first or corpus == "512":  # one tokenizer on every corpus
                    count = max(2, count // 20) if given.quick else count
                    note(f"{Path(name).name}, {corpus}")
                    texts = cut(book, characters, count)
                    compare(report, corpus, tokenizer, Path(name).name, texts, max_length, given, headline=first)


def compare(
    report: Report,
    corpus: str,
    tokenizer: Any,
    name: str,
    texts: list[str],
    max_length: int,
    given: Any,
    *,
    headline: bool,
) -> None:
    """Landmarks beside the plain call and beside the loop, of one tokenizer on one corpus."""
    landmarks = LandmarkTokenizer(tokenizer, SIZES[0], max_length)

    def every_size() -> list[Layouts]:
        once = landmarks.tokenize(texts)
        return [landmarks.lay_out(once, granularity=size) for size in SIZES]

    def every_call() -> list[Layouts]:
        return [landmarks.layouts(texts, granularity=size) for size in SIZES]

    found = landmarks.layouts(texts)
    assert [layout.input_ids for layout in found] == loop(tokenizer, texts, SIZES[0], max_length)
    for size, one, other in zip(SIZES, every_size(), every_call(), strict=True):
        assert list(one) == list(other), f"{name}, {corpus}: granularity {size} of one tokenization differs"
    taken = interleaved(
        {
            "plain": lambda: tokenizer(texts, truncation=True, max_length=max_length),
            "landmarks": lambda: landmarks.layouts(texts),
            "backend": lambda: backend(tokenizer, texts),
            "loop": lambda: loop(tokenizer, texts, SIZES[0], max_length),
            "4 calls": every_call,
            "4 sizes": every_size,
        },
        1 if given.quick else given.repetitions,
    )
    more: dict[str, Any] = {"conditions": {"texts": len(texts), "max_length": max_length, "granularity": SIZES[0]}}
    more |= {"limit": statistics.median(taken["backend"].processor), "limit_of": "tokenizer"}
    ours, case = taken["landmarks"].side("LandmarkTokenizer"), f"{name}, {corpus}"
    plain = taken["plain"].side("the plain call of the tokenizer")
    remark = "the plain call puts no landmarks in"
    report.add(Result("layout", case, ours, plain, "s", headline=headline and corpus == "512", remark=remark, **more))
    report.add(Result("layout", case, ours, taken["loop"].side("a loop over the texts"), "s", same="ids equal", **more))
    if corpus == "512":
        case = f"{name}, {corpus}, {len(SIZES)} granularities"
        calls = taken["4 calls"].side("a call of ours for each")
        same = "ids and positions equal"
        report.add(Result("layout", case, taken["4 sizes"].side("tokenized once"), calls, "s", same=same))


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
