from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = [
    "lmk_train.callbacks.validation",
    "lmk_train.config.resumable",
    "lmk_train.config.training",
    "lmk_train.data.cache.building",
    "lmk_train.data.examples",
    "lmk_train.data.reading.files",
    "lmk_train.data.reading.rows",
    "lmk_train.data.reading.survey",
    "lmk_train.data.sampling.draws",
    "lmk_train.data.sampling.mixture",
    "lmk_train.data.sampling.order",
    "lmk_train.loss.contrastive",
    "lmk_train.modules.schedule",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    result = doctest.testmod(import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
