"""Which rows make which batch, and which of a row's texts are used: all from the seed and numbers."""

from lmk_train.data.sampling.draws import draw_negatives, permutation, row_key, shuffled
from lmk_train.data.sampling.mixture import MixedSet, Part, merge_small
from lmk_train.data.sampling.order import BatchOrder, RowKey, share

__all__ = [
    "BatchOrder",
    "MixedSet",
    "Part",
    "RowKey",
    "draw_negatives",
    "merge_small",
    "permutation",
    "row_key",
    "share",
    "shuffled",
]
