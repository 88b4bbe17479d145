"""Texts that are not part of a training: of a file, of a folder, and the tokenizer that counts them."""

from lmk_experiments.texts.files import TextFile
from lmk_experiments.texts.sources import Source, named, sources
from lmk_experiments.texts.tokenizer import open_tokenizer

__all__ = ["Source", "TextFile", "named", "open_tokenizer", "sources"]
