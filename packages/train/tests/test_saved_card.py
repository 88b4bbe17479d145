"""What a trained model's card says of its training."""

from __future__ import annotations

import json
from pathlib import Path

from lmk_train import train
from lmk_train.config.card import for_card


def test_a_trained_model_says_how_it_was_trained(make_config, tmp_path):
    config = make_config(optim__steps=2)
    assert Path(config.model.path).is_absolute()
    text = (train(config, tmp_path) / "README.md").read_text(encoding="utf-8")
    shown = json.loads(text.split("## Training\n\n```json\n")[1].split("\n```")[0])
    assert shown == for_card(config)
    assert shown["optim"]["steps"] == 2
    assert shown["model"]["path"] == Path(config.model.path).name
    assert config.model.path not in text
    assert config.data.train[0] not in text
