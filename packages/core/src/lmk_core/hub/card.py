"""The model card: the README.md that a hub shows, with the header that it sorts by."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmk_core.hub.config import SavedModelError
from lmk_core.hub.travelling import MODULE_NAME
from lmk_core.layouts import PoolingTokenizer
from lmk_core.version import __version__

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_MARKDOWN = re.compile(r"([\\`*_\[\]#|~!])")
_DEFAULTS: dict[str, Any] = {
    "library_name": "sentence-transformers",
    "pipeline_tag": "sentence-similarity",
    "license": None,
    "base_model": None,
    "language": None,
    "datasets": None,
    "tags": [],
}


@dataclass(frozen=True)
class CardFacts:
    """What a card is made of."""

    tokenizer: PoolingTokenizer
    dim: int
    opens_without_flag: bool
    """In Sentence Transformers."""
    trained_from: str | None
    """What the encoder was loaded from."""
    prompts: Mapping[str, str]
    """By name."""


def model_card(facts: CardFacts, card: Mapping[str, Any] | None, training: Mapping[str, Any] | None) -> str:
    """The text of the card. Whatever it is told is escaped: no key can add markup or another key.

    Args:
        facts: about the model.
        card: ``name`` for the heading, and for the header ``license``, ``base_model``, ``language``, ``datasets``,
            ``tags``, ``library_name`` and ``pipeline_tag``.
        training: the configuration of the training, as plain values.

    Raises:
        SavedModelError: for an unknown key, or values that JSON has no words for.
    """
    given = dict(card or {})
    name = str(given.pop("name", "Embedding model"))
    unknown = sorted(set(given) - set(_DEFAULTS))
    if unknown:
        raise SavedModelError(f"card: unknown key {', '.join(map(repr, unknown))}; valid: name, {', '.join(_DEFAULTS)}")
    pooling = facts.tokenizer.pooling
    prompts = {key: text for key, text in facts.prompts.items() if text}
    flag = "" if facts.opens_without_flag else ", trust_remote_code=True"
    parts = [
        f"---\n{_header(facts, given)}---\n\n# {_escaped(name)}\n",
        f"Texts become vectors of {facts.dim} float32 numbers and length 1. Of a text at most "
        f"{facts.tokenizer.max_length} tokens are read.\n",
        f"## Pooling\n\n{_fenced('json', _json(pooling.to_dict(), 'pooling'))}\n{_ABOUT[pooling.kind]}\n",
        f"## Use\n\n{_fenced('python', _LMK)}\n{_fenced('python', _ST % flag)}",
        _ABOUT_FLAG if flag else "",
        f"## Prompts\n\n{_fenced('json', _json(prompts, 'prompts'))}\n{_ABOUT_PROMPTS}" if prompts else "",
        f"## Training\n\n{_fenced('json', _json(training, 'training'))}" if training else "",
        f"Written by lmk-core {__version__}. The paper: [arXiv 2601.21525](https://arxiv.org/abs/2601.21525).\n",
    ]
    return "\n".join(part for part in parts if part)


def base_model_of(name: str | None) -> str | None:
    """``name`` where it can be a model on a hub, rather than a folder here."""
    if not name or not _HUB_NAME.fullmatch(name) or Path(name).exists():
        return None
    return name


def _header(facts: CardFacts, given: Mapping[str, Any]) -> str:
    """YAML of which every value is JSON, which YAML includes: nothing can end a value early."""
    kind = facts.tokenizer.pooling.kind
    tags = ["sentence-transformers", "sentence-similarity", "feature-extraction", "lmk-core"]
    tags.append(f"{kind.replace('_', '-')}-pooling")
    if not facts.opens_without_flag:
        tags.append("custom_code")
    values = {**_DEFAULTS, "base_model": base_model_of(facts.trained_from), **given}
    values["tags"] = [*tags, *(tag for tag in values["tags"] if tag not in tags)]
    lines = [f"{key}: {_json(value, f'card: {key}', None)}\n" for key, value in values.items() if value is not None]
    return "".join(lines)


def _json(value: object, what: str, indent: int | None = 2) -> str:
    try:
        # ASCII: line ends that only Unicode knows stay within their string, for every reader.
        return json.dumps(value, indent=indent, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SavedModelError(f"{what}: {error}; expected plain JSON values") from error


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.strip()}\n```\n"


def _escaped(text: str) -> str:
    """One line of text that neither Markdown nor HTML takes for markup."""
    return _MARKDOWN.sub(r"\\\1", html.escape(" ".join(text.split()), quote=False))


_PLAIN = "No text token is added but the tokenizer's own first and last one."
_ABOUT = {
    "landmark": "A special token, the tokenizer's SEP (or EOS), stands behind every chunk of a text. The vector is the "
    "mean of these tokens' hidden states, normalised. With several chunk sizes, reading takes the smallest.",
    "multi_cls": "The tokenizer's CLS stands before every chunk of a text. The vector is the mean of these tokens' "
    "hidden states, normalised.",
    "cls": f"The vector is the first token's hidden state, normalised. {_PLAIN}",
    "mean": f"The vector is the mean of all tokens' hidden states, normalised. {_PLAIN}",
    "mean_at_k": f"The vector is the mean of every k-th token's hidden state, normalised. {_PLAIN}",
    "latent_attention": "Every token attends to trained latent vectors; the vector is the mean of the results, "
    f"normalised. {_PLAIN}",
}

_LMK = """
# pip install lmk-core
from lmk_core import Embedder

model = Embedder.from_pretrained("path-or-name-of-this-model")
vectors = model.encode(["a text", "another"])
"""

_ST = """
# pip install 'sentence-transformers>=6.2'
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("path-or-name-of-this-model"%s)
vectors = model.encode(["a text", "another"])
"""

_ABOUT_PROMPTS = """\
Put before the text; Sentence Transformers does it with `encode_query`, `encode_document` and `prompt_name=`.
"""

_ABOUT_FLAG = f"""\
The flag lets Sentence Transformers import `{MODULE_NAME}.py` of this repository; read it first. `lmk-core` need not be
installed. Where it is, `lmk_core.load_sentence_transformer(...)` opens the model without running any code of this
repository, and so does `Embedder`.
"""
