"""Memory and time of RetroMAE by the length of a text, on a CPU: a process for each length.

python benchmarks/retromae.py decoder           # of the decoder and the scores: the peak of forward and backward
python benchmarks/retromae.py step              # of a whole step: packed encoder, decoder, both losses, backward
                                                # (--encoder gte: not ModernBERT; --texts N: several of a length)

FlexAttention on a GPU against the blocks is benchmarks/gpu_retromae.py.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from lmk_train.retromae.attention import Sight
from lmk_train.retromae.decoder import PooledDecoder
from lmk_train.retromae.masks import hide_patterns
from lmk_train.retromae.scores import token_loss

LENGTHS = (1024, 2048, 4096, 8192)
DIM, HEADS, VOCABULARY = 32, 2, 512


def main() -> None:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("decoder", "step"))
    parser.add_argument("--encoder", choices=("modernbert", "gte"), default="modernbert")
    parser.add_argument("--texts", type=int, default=1, help="texts of each length")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    step = decoder_step if asked.what == "decoder" else whole_step(asked.encoder, asked.texts)
    what = f"decoder of {DIM} dimensions, {HEADS} heads, and the scores of {VOCABULARY} words"
    if asked.what == "step":
        what = f"a step of {asked.encoder}: 4 layers of 64 dimensions, decoder, both losses, landmarks"
    print(f"{what}; {asked.texts} text(s), float32, one thread")
    print("tokens   peak MB   bytes a token   seconds   (a whole mask of one byte a pair, MB)")
    for length in LENGTHS:
        peak, seconds = alone(step, length)
        whole = length * length / 1e6
        print(f"{length:6} {peak / 1e6:9.2f} {peak / length:15.0f} {seconds:9.2f}   {whole:8.1f}", flush=True)


def alone(step: Callable[[int], None], length: int) -> tuple[int, float]:
    """Peak in bytes, and seconds, of one forward and backward pass in a process that was forked for it."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        step(64)  # what is kept by the first one is none of the text's
        before, began = _peak(), time.process_time()
        step(length)
        os.write(writer, f"{_peak() - before} {time.process_time() - began}".encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        peak, seconds = said.read().split()
    os.waitpid(child, 0)
    return int(peak), float(seconds)


def decoder_step(length: int) -> None:
    """Both directions of the decoder and its loss, on one text."""
    torch.manual_seed(0)
    decoder, head = PooledDecoder(DIM, HEADS, 2 * DIM), nn.Linear(DIM, VOCABULARY)
    pooled, embedded = torch.randn(1, DIM, requires_grad=True), torch.randn(length, DIM, requires_grad=True)
    sight = make_sight(length)
    texts = torch.zeros(length, dtype=torch.long)
    made = decoder(pooled, embedded, sight, torch.arange(length), texts)
    wanted = torch.randint(VOCABULARY, (length,))
    token_loss(head, made, wanted, vocabulary=VOCABULARY, at_once=2**16).backward()


def whole_step(kind: str, count: int) -> Callable[[int], None]:
    """What makes both directions of a whole pre-training's step, masks and layouts included."""
    from transformers import GteConfig, GteForMaskedLM, ModernBertConfig, ModernBertForMaskedLM

    from lmk_core.encoders import PooledEncoder
    from lmk_core.layouts.layout import Layout
    from lmk_core.pooling import PoolingConfig
    from lmk_train.retromae import MaskedText, Masking, RetroMae, pack_masked

    make_config, make_model = {
        "modernbert": (ModernBertConfig, ModernBertForMaskedLM),
        "gte": (GteConfig, GteForMaskedLM),
    }[kind]
    torch.manual_seed(0)
    config = make_config(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=2,
        pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2, max_position_embeddings=8192,
    )  # fmt: skip
    whole = make_model(config)
    head = nn.Sequential(*(part for name, part in whole.named_children() if name != whole.base_model_prefix))
    model = RetroMae(PooledEncoder(whole.base_model, PoolingConfig("landmark", granularity=32)), head)
    masking = Masking(0.3, 0.5, 4, np.arange(5, VOCABULARY, dtype=np.int32))

    def step(length: int) -> None:
        draw = np.random.RandomState(0)
        texts = []
        for _ in range(count):
            ids = draw.randint(5, VOCABULARY, size=length).astype(np.int32)
            pooled = np.arange(32, length, 33)
            ids[0], ids[pooled] = 1, 2
            layout = Layout(ids.tolist(), pooled.tolist())
            begins = draw.random_sample(length) < 0.7
            texts.append(MaskedText.make(layout, begins, masking, landmarks=True, draw=draw))
        batch = pack_masked(texts)
        losses = model(batch)
        (losses.encoder / len(batch.masked) + losses.decoder / len(batch.guessed)).backward()

    return step


def make_sight(length: int) -> Sight:
    """Words of which half are hidden by each of 128 patterns."""
    draw = np.random.RandomState(0)
    hidden, patterns = hide_patterns(draw.random_sample(length) < 0.7, 0.5, draw)
    return Sight((0, length), torch.from_numpy(hidden), torch.from_numpy(patterns))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
