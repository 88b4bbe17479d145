"""Hit@k of the chunks around a landmark, among all chunks of its document. Numpy only."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Float64

Find = Literal["chunk", "landmark"]
"""What is looked for: the chunk, with the landmark as the query (as in Figure 4), or the reverse."""
FINDS: tuple[Find, ...] = ("chunk", "landmark")
LEFT, RIGHT = -1, 1


def neighbour_hits(
    landmarks: Float[np.ndarray, "chunks dim"],
    chunks: Float[np.ndarray, "chunks dim"],
    distance: int,
    most: int,
    find: Find = "chunk",
) -> Float64[np.ndarray, " most"]:
    """Hit@1 to Hit@``most`` of the chunk at a distance from each landmark, by cosine; the mean over landmarks.

    The last landmark of a document has no right neighbour. It is left out at every distance, so that left and right
    are means over the same landmarks. Where several are equally near, a hit counts by its chance in a random order:
    vectors that are all equal score what guessing does.

    Args:
        landmarks: the document's landmarks, each of which saw all of it.
        chunks: its chunks, each encoded alone.
        distance: -1 is the left neighbour, the chunk that the landmark closes, 1 the right one, -2 the one before.
        most: the largest k.
        find: which of the two is looked for among the document's others.

    Raises:
        ValueError: for a distance of 0.
    """
    if distance == 0:
        raise ValueError("distance: 0; a landmark stands between two chunks, -1 and 1")
    similar = _unit(landmarks) @ _unit(chunks).T
    rows = np.arange(len(chunks) - 1)
    columns = rows + (distance + 1 if distance < 0 else distance)
    inside = (columns >= 0) & (columns < len(chunks))
    rows, columns = rows[inside], columns[inside]
    among = similar[rows] if find == "chunk" else similar[:, columns].T
    return _hits(among, similar[rows, columns], most)


def _hits(
    among: Float64[np.ndarray, "queries candidates"], wanted: Float64[np.ndarray, " queries"], most: int
) -> Float64[np.ndarray, " most"]:
    if not len(wanted):
        return np.full(most, np.nan)
    nearer: Bool[np.ndarray, "queries candidates"] = among > wanted[:, None]
    level = among == wanted[:, None]
    room = np.arange(1, most + 1) - nearer.sum(axis=1)[:, None]
    return np.clip(room / level.sum(axis=1)[:, None], 0, 1).mean(axis=0)


def _unit(vectors: Float[np.ndarray, "chunks dim"]) -> Float64[np.ndarray, "chunks dim"]:
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.maximum(lengths, np.finfo(np.float64).tiny)
