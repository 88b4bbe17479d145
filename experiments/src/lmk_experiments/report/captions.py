"""What is said under a figure: what it shows, its axes and units, and what its numbers say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Line = Mapping[str, Any]
Options = Mapping[str, Any]


def caption(kind: str, options: Options, summary: Sequence[Line]) -> str:
    """A figure in words.

    Args:
        kind: of the analysis.
        options: what it was told.
        summary: its few numbers, a line a series, as its ``DONE.json`` has them.
    """
    try:
        shown, said = _WORDS[kind](options, summary)
    except (KeyError, TypeError, ValueError, IndexError):  # a record of another version: its numbers stand below
        return ""
    return f"{shown} {said}".strip()


def _attention(options: Options, summary: Sequence[Line]) -> tuple[str, str]:
    where = "in tokens" if options["by"] == "tokens" else "as a fraction of the document (0 begin, 1 end)"
    layer = "the last layer" if options["layer"] == -1 else f"layer {options['layer']}"
    shown = (
        f"Attention of the pooled positions (CLS, or the landmarks) in {layer} to each position of long documents: the "
        f"mean over heads, pooled positions and up to {options['documents']} documents, as a multiple of uniform "
        f"attention (the grey line at 1). Across: the position, {where}; a panel for each length that documents are "
        "encoded at. Bands: the standard error over documents."
    )
    longest = max(line["max_length"] for line in summary)
    heads = [(line["series"], line["share_of_first_tenth"]) for line in summary if line["max_length"] == longest]
    listed = _listed([f"{name} {_percent(value)}" for name, value in heads])
    return shown, f"At {longest:,} tokens the first tenth of a document gets this share (10% is uniform): {listed}."


def _lengths(options: Options, summary: Sequence[Line]) -> tuple[str, str]:
    shown = (
        "First panel: the share of texts (%) by their length in tokens, special tokens included, in bins that double. "
        "Second panel: the share of texts (%) that a maximum length cuts."
    )
    said = [
        f"{line['data']}: {line['texts']:,} texts, half of them of up to {line['median']:,.0f} tokens, 99% of up to "
        f"{line['99%']:,.0f}, the longest of {line['longest']:,}"
        for line in summary
    ]
    return shown, f"{'; '.join(said)}. Tokenizer: {options['tokenizer']}."


def _landmarks(options: Options, summary: Sequence[Line]) -> tuple[str, str]:
    shown = (
        "How often (%) the chunk to the left (solid) or to the right (dashed) of a landmark is among the k chunks of "
        f"its document nearest to it. Each landmark saw the whole document (at least {options['min_chunks']} chunks), "
        "each chunk is encoded alone. First panel: by k. Second panel: by the chunk's distance from the landmark, at "
        f"k = {options['k']}. Dotted: guessing."
    )
    said = []
    for line in summary:
        if line["find"] == "chunk":
            error = line["bias_standard_error"]
            about = "" if error is None else f" ± {100 * error:.1f}"
            said.append(
                f"{line['series']}: Hit@{line['k']} {_percent(line['left'])} left and {_percent(line['right'])} right, "
                f"a bias to the left of {100 * line['bias']:+.1f}{about} points ({line['documents']} documents)"
            )
    return shown, f"{'; '.join(said)}."


def _position(_: Options, summary: Sequence[Line]) -> tuple[str, str]:
    shown = (
        "NDCG@10 of queries grouped by where in its document the evidence stands, where that is known, and by how many "
        "tokens the document has. Bars: standard errors over queries; numbers above: queries of a group."
    )
    said = [f"{line['series']} {line['ndcg_at_10']:.3f}" for line in summary]
    return shown, f"Over all queries: {_listed(said)}."


def _geometry(_: Options, summary: Sequence[Line]) -> tuple[str, str]:
    shown = (
        "How the embeddings of the same texts fill their space. First panel: the share (%) of all singular values that "
        "the largest ones hold. Second panel: effective rank (directions in use) against uniformity, the logarithm of "
        "the mean of exp(-2 d²) over all pairs: lower is more evenly spread."
    )
    said = [f"{line['series']} {line['effective_rank']:.1f} of {line['dim']}" for line in summary]
    return shown, f"Effective rank: {_listed(said)}."


def _cost(_: Options, summary: Sequence[Line]) -> tuple[str, str]:
    shown = (
        "What landmarks cost beside the same weights without them, by the tokens between two landmarks: tokens more "
        "(%), text that no longer fits (%) where some does not, and seconds more (%) where they were measured."
    )
    said = [
        f"{line['series']} at {line['granularity']}: {_percent(line['extra_tokens'])} more tokens{_lost(line)}"
        for line in summary
        if line["granularity"] is not None
    ]
    return shown, f"{'; '.join(said)}."


def _lost(line: Line) -> str:
    """Where texts are cut, landmarks take the place of text instead of adding tokens."""
    return f", {_percent(line['text_lost'])} of the text lost" if line.get("text_lost", 0) > 0 else ""


_WORDS: dict[str, Callable[[Options, Sequence[Line]], tuple[str, str]]] = {
    "attention": _attention,
    "cost": _cost,
    "geometry": _geometry,
    "landmarks": _landmarks,
    "lengths": _lengths,
    "position": _position,
}


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts)
