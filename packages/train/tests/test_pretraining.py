"""`pretrain`: from texts to a model that a fine-tune starts from, stopped and resumed, on one process and on two."""

from __future__ import annotations

import gzip
import json
import shutil

import pytest
import torch
from stopping import Stopped

from lmk_core import Embedder
from lmk_train import DataError, PretrainConfig, pretrain, train
from lmk_train.callbacks import CheckpointMismatchError
from lmk_train.data.reading import Findings
from lmk_train.pretraining.reading import read_texts

LANDMARK = {"kind": "landmark", "granularity": 4}
VARIABLE = {"kind": "landmark", "granularity": [2, 4, 8]}


@pytest.fixture(scope="session")
def texts_file(rows_file, tmp_path_factory):
    rows = [json.loads(line) for line in rows_file.read_text().splitlines()]
    file = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    file.write_text("".join(json.dumps({"text": " ".join(row["pos"] + row["neg"])}) + "\n" for row in rows))
    return file


@pytest.fixture
def make_pretrain(tiny_model, texts_file):
    def make(**changes):
        values = {
            "method": "retromae",
            "model": {"path": str(tiny_model)},
            "pooling": VARIABLE,
            "data": {"train": [str(texts_file)], "max_length": 48},
            "optim": {"steps": 6, "batch_size": 4, "learning_rate": 1e-3, "warmup_steps": 2},
            "runtime": {"accelerator": "cpu", "log_every": 1, "checkpoint_every": None},
        }
        for key, value in changes.items():
            section, _, name = key.partition("__")
            if name:
                values[section][name] = value
            else:
                values[section] = value
        return PretrainConfig.model_validate(values)

    return make


def weights(model):
    return Embedder.from_pretrained(model, device="cpu").module.state_dict()


def assert_same(left, right, **tolerance):
    ours, theirs = weights(left), weights(right)
    assert ours.keys() == theirs.keys()
    for name in ours:
        if tolerance:
            torch.testing.assert_close(ours[name], theirs[name], **tolerance)
        else:
            assert torch.equal(ours[name], theirs[name]), name


def test_a_fine_tune_starts_from_every_weight(make_pretrain, make_config, tmp_path, recorder):
    model = pretrain(make_pretrain(), tmp_path / "abc", recorder)
    assert recorder.kinds() == ["start", "finished"]
    assert recorder.events[0]["head"] == "new"
    assert recorder.events[0]["rows"] == 64
    for name in ("train/loss", "train/encoder_loss", "train/decoder_loss"):
        assert list(recorder.curve(name)) == [1, 2, 3, 4, 5, 6]
    both = zip(
        recorder.curve("train/encoder_loss").values(), recorder.curve("train/decoder_loss").values(), strict=True
    )
    assert list(recorder.curve("train/loss").values()) == pytest.approx([sum(pair) for pair in both])
    assert not (tmp_path / "abc/checkpoints").exists()
    pretrained = Embedder.from_pretrained(model, device="cpu")
    assert pretrained.pooling.to_dict() == VARIABLE

    recorder.events.clear()
    tuned = train(make_config(pooling=VARIABLE, optim__steps=0, init=str(tmp_path / "abc")), tmp_path / "b", recorder)
    (told,) = (event for event in recorder.events if event["event"] == "initialized")
    count = len(pretrained.module.state_dict())
    assert told == {"event": "initialized", "pretraining": "abc", "weights_loaded": count, "weights": count}
    assert count > 10
    assert_same(tuned, model)

    recorder.events.clear()
    shutil.rmtree(tmp_path / "abc")  # it has served
    train(make_config(pooling=VARIABLE, optim__steps=0, init=str(tmp_path / "abc")), tmp_path / "b", recorder)
    assert recorder.kinds() == ["already_trained"]


def test_a_weight_that_is_not_the_pretrainings_is_refused(make_pretrain, make_config, tmp_path):
    pretrain(make_pretrain(optim__steps=1, optim__warmup_steps=0), tmp_path / "a")
    noted = json.loads((tmp_path / "a/WEIGHTS.json").read_text())
    noted["weights"]["encoder.final_norm.weight"] = "0" * 16
    (tmp_path / "a/WEIGHTS.json").write_text(json.dumps(noted))
    config = make_config(pooling=VARIABLE, init=str(tmp_path / "a"))
    with pytest.raises(ValueError, match=r"1 of \d+ weights are not those .* encoder.final_norm.weight"):
        train(config, tmp_path / "b")
    with pytest.raises(ValueError, match="'retromae' is no folder of a finished pre-training"):
        train(make_config(init="retromae"), tmp_path / "b")


@pytest.mark.parametrize("stop", [4, 6])
def test_a_resumed_pretraining_is_the_undisturbed_one(stop, make_pretrain, tmp_path, recorder, stop_after):
    """With dropout, several chunks a step, and more than one pass over the texts: 16 steps are one."""
    settings = {"optim__steps": 20, "runtime__chunk_tokens": 64}
    whole = pretrain(make_pretrain(**settings), tmp_path / "whole", recorder)
    expected = recorder.curve("train/loss")
    config = make_pretrain(**settings, runtime__checkpoint_every=2)
    stop_after(stop)
    with pytest.raises(Stopped):
        pretrain(config, tmp_path / "run", recorder)
    stop_after(0)
    with pytest.raises(CheckpointMismatchError, match=r"masking\.encoder"):
        pretrain(make_pretrain(**settings, masking={"encoder": 0.2}), tmp_path / "run")
    recorder.values.clear()
    torch.manual_seed(12345)
    resumed = pretrain(config, tmp_path / "run", recorder)
    assert_same(resumed, whole)
    assert recorder.curve("train/loss") == {step: loss for step, loss in expected.items() if step > stop}
    assert {"event": "resumed", "step": stop} in recorder.events
    recorder.events.clear()
    pretrain(config, tmp_path / "run", recorder)
    assert recorder.kinds() == ["already_trained"]


def test_chunks_workers_and_padding_change_no_gradient(make_pretrain, calm_model, tmp_path, recorder):
    base = {"model": {"path": str(calm_model)}, "optim__steps": 2, "optim__learning_rate": 1e-4}
    whole = pretrain(make_pretrain(**base), tmp_path / "whole", recorder)
    # AdamW hides a factor on all gradients: their norms do not.
    norms = recorder.curve("train/gradient_norm")
    for number, other in enumerate(
        ({"runtime__chunk_tokens": 1}, {"runtime__num_workers": 1}, {"runtime__packed": False})
    ):
        recorder.values.clear()
        made = pretrain(make_pretrain(**base, **other), tmp_path / f"{number}", recorder)
        assert_same(made, whole, atol=2e-6, rtol=1e-5)
        assert recorder.curve("train/gradient_norm") == pytest.approx(norms, rel=1e-5)


def test_bfloat16_is_close(make_pretrain, calm_model, tmp_path, recorder):
    losses = []
    for precision in ("fp32", "bf16"):
        base = {"model": {"path": str(calm_model)}, "optim__steps": 1, "optim__warmup_steps": 0}
        pretrain(make_pretrain(**base, precision=precision), tmp_path / precision, recorder)
        losses.append([recorder.values[-1][1][f"train/{one}_loss"] for one in ("encoder", "decoder")])
    assert losses[1] == pytest.approx(losses[0], rel=2e-2)
    assert losses[1] != losses[0]


def test_two_processes_are_one(make_pretrain, calm_model, tmp_path, recorder):
    base = {"model": {"path": str(calm_model)}, "optim__steps": 2, "optim__batch_size": 5}
    whole = pretrain(make_pretrain(**base), tmp_path / "one", recorder)
    expected = {name: recorder.curve(f"train/{name}") for name in ("decoder_loss", "gradient_norm")}
    recorder.values.clear()
    pair = pretrain(make_pretrain(**base, runtime__devices=2), tmp_path / "two", recorder)
    for name, curve in expected.items():
        assert recorder.curve(f"train/{name}") == pytest.approx(curve, rel=1e-5)
    assert_same(pair, whole, atol=1e-5, rtol=1e-4)


def test_a_loss_that_is_no_number_names_its_texts(make_pretrain, tmp_path, recorder, monkeypatch):
    from lmk_train.modules.finite import NonFiniteError
    from lmk_train.retromae.model import RetroMae

    original = RetroMae.decoder_loss
    monkeypatch.setattr(
        RetroMae, "decoder_loss", lambda self, pooled, batch: original(self, pooled, batch) * float("nan")
    )
    with pytest.raises(NonFiniteError, match="the loss is nan at step 1 of 6, with rows"):
        pretrain(make_pretrain(), tmp_path, recorder)
    assert len(recorder.events[-1]["where"][0]["rows"]) == 4


def test_texts_are_read_from_rows_and_from_plain_text(make_pretrain, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq
    from transformers import AutoTokenizer

    from lmk_core.layouts import PoolingTokenizer
    from lmk_core.pooling import PoolingConfig
    from lmk_train.pretraining import PretrainingData

    folder = tmp_path / "texts"
    (folder / "books").mkdir(parents=True)
    (folder / "a.jsonl").write_text('{"text": "kaba", "title": "no"}\n\n{"text": " "}\n{"text": "lodo"}\n')
    pq.write_table(pa.table({"text": ["mipu", "nure"]}), folder / "b.parquet")
    (folder / "books/c.txt.gz").write_bytes(gzip.compress(b"sota taba\n"))
    config = make_pretrain(data={"train": [str(folder)], "max_length": 12})
    hf = AutoTokenizer.from_pretrained(config.model.path)
    data = PretrainingData(config, PoolingTokenizer(hf, PoolingConfig.from_dict(VARIABLE), 12))
    read = [hf.decode(file[number].ids) for file in data.texts.files for number in range(len(file))]
    assert read == ["kaba", "lodo", "mipu", "nure", "sota taba\n"]
    assert data.summary()["found"] == {"without_text": 1}


def test_a_long_plain_text_is_cut_at_blank_lines_else_between_words(tmp_path):
    paragraphs = ["one two", "three\nfour", "five " * 30, "last"]
    (tmp_path / "a.txt").write_text("\n\n".join(paragraphs) + "\n")
    findings = Findings()
    pieces = list(read_texts(tmp_path / "a.txt", findings, characters=48))
    assert "".join(text for _, text in pieces) == (tmp_path / "a.txt").read_text()
    assert max(len(text) for _, text in pieces) <= 48
    assert pieces[0] == (1, "one two\n\nthree\nfour\n\n")
    assert [number for number, _ in pieces] == [1, 6, 6, 6, 6]
    assert all(text.split()[0] in ("one", "five") for _, text in pieces)
    assert findings.rows == 5
    (tmp_path / "a.txt").write_bytes(b"one\n\nt\xffo\n")
    list(read_texts(tmp_path / "a.txt", findings, characters=48))
    assert str(findings.faults[0]).endswith("a.txt:3: not UTF-8 (byte 2 of the line is b'\\xff')")


@pytest.mark.parametrize("word", ["five ", "five"], ids=["words", "no spaces"])
def test_a_very_long_line_is_cut_without_loss(word, tmp_path):
    text = word * (30_000 // len(word))
    (tmp_path / "a.txt").write_text(text)
    pieces = [piece for _, piece in read_texts(tmp_path / "a.txt", Findings(), characters=16)]
    assert "".join(pieces) == text
    assert {len(piece) for piece in pieces[:-1]} == ({15, 14} if word.endswith(" ") else {16})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"query": "a"}', "texts.jsonl:2: key 'text' is missing or null; it has the keys: 'query'"),
        ('{"text": ["a"]}', "texts.jsonl:2: key 'text': a string is expected, found list"),
        ("[1]", "texts.jsonl:2: a JSON object with the key 'text' is expected, found list"),
    ],
)
def test_a_faulty_row_is_told_by_line(line, message, make_pretrain, tmp_path):
    (tmp_path / "texts.jsonl").write_text('{"text": "kaba"}\n' + line + '\n{"text": "lodo"}\n')
    with pytest.raises(DataError) as raised:
        pretrain(make_pretrain(data={"train": [str(tmp_path)]}), tmp_path / "out")
    assert message in str(raised.value)


def test_landmarks_by_sentence(make_pretrain, make_config, tmp_path, recorder):
    """The same maths: a landmark behind each sentence, words and masks as ever, and a fine-tune that goes on."""
    from transformers import AutoTokenizer

    from lmk_core.layouts import PoolingTokenizer
    from lmk_core.pooling import PoolingConfig
    from lmk_train.pretraining import PretrainingData

    by_sentence = {"kind": "landmark", "granularity": "sentence"}
    texts = ["Kaba lodo mipu. Nure kaba. Sota!", "Lodo kaba", "Mipu nure. " * 30]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts * 3))
    changes = {"pooling": by_sentence, "data": {"train": [str(tmp_path / "texts.jsonl")], "max_length": 40}}
    config = make_pretrain(**changes, optim__steps=1, optim__warmup_steps=0)
    tokenizer = PoolingTokenizer(
        AutoTokenizer.from_pretrained(config.model.path), PoolingConfig.from_dict(by_sentence), 40
    )
    data = PretrainingData(config, tokenizer)
    keys = [key for step in range(2) for key in data.order().step(step)]
    batch = data.collator([data.texts[key] for key in keys])
    for key, masked in zip(keys, batch.texts, strict=True):
        (wanted,) = tokenizer.layouts([texts[key.row % 3]])
        assert (masked.layout.input_ids, masked.layout.pooled) == (wanted.input_ids, wanted.pooled)
        assert not masked.masked[masked.layout.pooled].any()
        assert masked.masked[masked.is_text].any()
    pretrain(config, tmp_path / "abc", recorder)
    train(make_config(pooling=by_sentence, optim__steps=0, init=str(tmp_path / "abc")), tmp_path / "b", recorder)
    assert "initialized" in recorder.kinds()


@pytest.mark.parametrize("pooling", [{"kind": "cls"}, LANDMARK, VARIABLE])
def test_nothing_of_a_plain_text_is_left_out(pooling, make_pretrain, tmp_path):
    """Each consecutive piece fits its layout whole, whatever sizes its landmarks have."""
    from transformers import AutoTokenizer

    from lmk_core.layouts import PoolingTokenizer
    from lmk_core.pooling import PoolingConfig
    from lmk_train.pretraining import PretrainingData

    text = "kaba lodo mipu nure sota taba " * 40 + "\n\n" + "kabalodomipunuresotataba" * 20 + "\n"
    (tmp_path / "a.txt").write_text(text)
    config = make_pretrain(pooling=pooling, data={"train": [str(tmp_path / "a.txt")], "max_length": 16})
    hf = AutoTokenizer.from_pretrained(config.model.path)
    data = PretrainingData(config, PoolingTokenizer(hf, PoolingConfig.from_dict(pooling), 16))
    read = [file[number] for file in data.texts.files for number in range(len(file))]
    assert "".join("".join(hf.decode(one.ids) for one in read).split()) == "".join(text.split())
    assert all(one.begins[0] for one in read[:10])
    keys = [key for step in range(data.order().batches_per_epoch) for key in data.order().step(step)]
    for key, masked in zip(keys, data.collator([data.texts[key] for key in keys]).texts, strict=True):
        assert int(masked.is_text.sum()) == len(read[key.row])
        assert len(masked.layout) <= 16
