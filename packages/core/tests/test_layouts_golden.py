"""Real tokenizers: layouts made by the paper's published code, and the baselines' ordinary call."""

from __future__ import annotations

import hashlib
import json

import pytest

from lmk_core import LandmarkTokenizer, PoolingConfig, PoolingTokenizer

GEMMA = {"cls_token": "<bos>", "sep_token": "<eos>"}
TOKENIZERS = {"modernbert-base": {}, "bert-base-uncased": {}, "xlm-roberta-base": {}, "gemma2": GEMMA}


def digest(ids):
    return hashlib.sha1(",".join(map(str, ids)).encode()).hexdigest()


@pytest.mark.parametrize("name", TOKENIZERS)
def test_golden_layouts(shared, real_tokenizer, name):
    lines = [json.loads(line) for line in (shared / "data" / "golden-layouts.jsonl").read_text().splitlines()]
    own = [line for line in lines if line["tokenizer"] == name]
    assert len(lines) == 119
    assert len(own) >= 20
    tokenizer = real_tokenizer(name, **TOKENIZERS[name])
    for line in own:
        assert line.get("tokenizer_kwargs", {}) == TOKENIZERS[name]
        text = (shared / "data" / "longtext" / line["file"]).read_text(encoding="utf-8")[line["start"] : line["end"]]
        (layout,) = LandmarkTokenizer(tokenizer, line["granularity"], line["max_length"]).layouts([text])
        assert len(layout) == line["n_ids"]
        assert layout.pooled == line["landmarks"]
        assert layout.input_ids[:12] == line["first_ids"]
        assert layout.input_ids[-12:] == line["last_ids"]
        assert digest(layout.input_ids) == line["sha1"]


@pytest.mark.parametrize("name", ["modernbert-base", "bert-base-uncased", "xlm-roberta-base"])
def test_baselines_equal_the_ordinary_call(real_tokenizer, name):
    tokenizer = real_tokenizer(name)
    texts = ["", "a", "Ein kürzerer Text über Häuser.", "many words " * 100]
    plain = tokenizer(texts, truncation=True, max_length=64)["input_ids"]
    layouts = PoolingTokenizer(tokenizer, PoolingConfig("mean"), 64).layouts(texts)
    assert [layout.input_ids for layout in layouts] == plain
