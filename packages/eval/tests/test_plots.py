"""What stands in a plot can be read: no text lies on another, and no axis blows noise up."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from lmk_eval.analyses.cost.plot import draw_cost
from lmk_eval.analyses.figures import Row
from lmk_eval.analyses.figures.style import print_style
from lmk_eval.analyses.geometry.analyse import Geometry
from lmk_eval.analyses.geometry.plot import draw_geometry


def overlapping(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts whose boxes share more than an edge."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn = canvas.get_renderer()
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text().strip()]
    shown = [(text.get_text(), text.get_window_extent(drawn).padded(-1)) for text in texts if text.get_visible()]
    return [(a, b) for (a, first), (b, second) in combinations(shown, 2) if first.overlaps(second)]


def test_models_that_are_near_each_other_can_be_told_apart() -> None:
    spectrum = np.full(64, 1 / 64)
    places = ((-1.75, 34.1), (-1.63, 41.5), (-0.82, 27.7), (-0.72, 25.8))
    found = [Geometry(f"model {x}", 64, rank, rank, x, 0.3, spectrum) for x, rank in places]
    with print_style():
        assert overlapping(draw_geometry(found)) == []


@pytest.mark.parametrize(("extra", "most"), [(0.0, 1.0), (0.0004, 1.0), (0.12, 14.0)])
def test_a_difference_of_nothing_is_drawn_as_nothing(extra: float, most: float) -> None:
    rows: list[Row] = [
        {"series": "one", "granularity": size, "extra_tokens": extra * 8 / size, "text_lost": 0.0} for size in (8, 16)
    ]
    with print_style():
        (axes,) = draw_cost(rows).axes
    low, high = axes.get_ylim()
    assert low <= 0 <= 100 * extra <= high <= most
    assert high - low >= 1
