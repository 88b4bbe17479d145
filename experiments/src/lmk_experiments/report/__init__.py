"""A grid as one HTML page that needs nothing beside it. Importing this package imports neither torch nor mlflow."""

from lmk_experiments.report.files import write_charts
from lmk_experiments.report.gather import Gathered, gather
from lmk_experiments.report.page import render_page

__all__ = ["Gathered", "gather", "render_page", "write_charts"]
