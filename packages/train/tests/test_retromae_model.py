"""Both losses on encoders of each kind: gradients, packing, chunks of scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, GteConfig, GteModel

from lmk_core.encoders import PooledEncoder, load_encoder, load_language_head
from lmk_core.layouts import PoolingTokenizer
from lmk_core.pooling import PoolingConfig
from lmk_core.texts.words import tokenize_words
from lmk_train.retromae import MaskedText, Masking, RetroMae, pack_masked
from lmk_train.retromae.scores import token_loss

POOLINGS = {
    "cls": PoolingConfig("cls"),
    "landmark": PoolingConfig("landmark", granularity=4),
    "variable": PoolingConfig("landmark", granularity=(2, 4)),
}
TEXTS = ["kabalo mipu nure kaba sota veba lodo", "kagi", "mipu tado rego kapu nudo lopu vegi tagi loba veba " * 3, ""]


@pytest.fixture(scope="module")
def gte_model(calm_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gte")
    tokenizer = AutoTokenizer.from_pretrained(calm_model)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = GteConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    GteModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(params=["modernbert", "gte"])
def folder(request, calm_model, gte_model):
    return {"modernbert": calm_model, "gte": gte_model}[request.param]


def make_model(folder, pooling, *, packed=True):
    torch.manual_seed(0)
    encoder = PooledEncoder(load_encoder(folder), pooling)
    head, _ = load_language_head(folder, encoder.encoder)
    return RetroMae(encoder, head, packed=packed)


def make_batch(folder, pooling, texts=TEXTS, max_length=24):
    hf = AutoTokenizer.from_pretrained(folder)
    tokenizer = PoolingTokenizer(hf, pooling, max_length)
    masking = Masking.of_tokenizer(hf, encoder=0.3, decoder=0.5)
    made = []
    for place, text in enumerate(texts):
        *_, begins = tokenize_words(hf, [text], None)
        draw = np.random.RandomState([0, place])
        layout = tokenizer.layouts([text])[0]
        landmarks = pooling.kind == "landmark"
        made.append(MaskedText.make(layout, begins, masking, landmarks=landmarks, draw=draw))
    return pack_masked(made)


@pytest.mark.parametrize("pooling", POOLINGS.values(), ids=POOLINGS)
def test_the_decoders_loss_alone_teaches_the_encoder(folder, pooling):
    """In the published code hidden states of ModernBERT lose their gradient: its encoder learnt from masks alone."""
    model, batch = make_model(folder, pooling), make_batch(folder, pooling)
    model(batch).decoder.backward()
    for name, parameter in model.encoder.encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name
    layers = [p.grad for name, p in model.encoder.encoder.named_parameters() if "layers" in name or "layer." in name]
    assert len(layers) > 8


@pytest.mark.parametrize("pooling", POOLINGS.values(), ids=POOLINGS)
def test_packed_is_padded(folder, pooling):
    batch = make_batch(folder, pooling)
    values = []
    for packed in (True, False):
        model = make_model(folder, pooling, packed=packed)
        losses = model(batch)
        (losses.encoder / len(batch.masked) + losses.decoder / len(batch.guessed)).backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        values.append((losses.encoder.detach(), losses.decoder.detach(), gradients))
    (encoder, decoder, ours), (same_encoder, same_decoder, theirs) = values
    torch.testing.assert_close(encoder, same_encoder)
    torch.testing.assert_close(decoder, same_decoder)
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], atol=2e-5, rtol=1e-3)


def test_the_encoder_reads_the_masked_text_and_the_decoder_the_whole(folder):
    pooling = POOLINGS["landmark"]
    batch = make_batch(folder, pooling)
    hf = AutoTokenizer.from_pretrained(folder)
    assert (batch.read == hf.mask_token_id).any()
    assert not (batch.ids == hf.mask_token_id).any()
    special = torch.isin(batch.ids, torch.tensor([hf.cls_token_id, hf.sep_token_id]))
    assert torch.equal(batch.guessed, (~special).nonzero().flatten())
    assert not special[batch.masked].any()
    assert special[batch.pooled].all()


def test_the_head_is_tied_and_one_for_both(folder):
    model = make_model(folder, POOLINGS["cls"])
    inputs = model.encoder.encoder.get_input_embeddings().weight
    assert any(parameter is inputs for parameter in model.head.parameters())
    scores = model.head(torch.zeros(3, 32))
    assert scores.shape == (3, len(inputs))


@pytest.mark.parametrize("saved_with_head", [False, True])
def test_a_checkpoints_own_head_is_used(calm_model, tmp_path, saved_with_head):
    from transformers import AutoModelForMaskedLM

    if not saved_with_head:
        encoder = load_encoder(calm_model)
        assert load_language_head(calm_model, encoder)[1] is False
        return
    torch.manual_seed(5)
    model = AutoModelForMaskedLM.from_pretrained(calm_model)
    model.save_pretrained(tmp_path)
    encoder = load_encoder(tmp_path)
    head, loaded = load_language_head(tmp_path, encoder)
    assert loaded
    ids = torch.tensor([[1, 7, 8, 9, 2]])
    model.eval()
    torch.testing.assert_close(head(encoder(ids).last_hidden_state), model(ids).logits)


def test_scores_are_never_there_all_at_once():
    torch.manual_seed(0)
    sizes = []

    class Head(torch.nn.Linear):
        def forward(self, hidden):
            sizes.append(len(hidden))
            return super().forward(hidden)

    head, hidden, wanted = Head(8, 50), torch.randn(23, 8, requires_grad=True), torch.randint(50, (23,))
    loss = token_loss(head, hidden, wanted, vocabulary=50, at_once=250)
    loss.backward()
    assert max(sizes) == 5
    ours = (loss.detach(), hidden.grad.clone(), head.weight.grad.clone())
    hidden.grad = head.weight.grad = None
    whole = torch.nn.functional.cross_entropy(head(hidden), wanted, reduction="sum")
    whole.backward()
    for one, other in zip(ours, (whole.detach(), hidden.grad, head.weight.grad), strict=True):
        torch.testing.assert_close(one, other)
    assert token_loss(head, hidden[:0], wanted[:0], vocabulary=50) == 0
