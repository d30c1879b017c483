"""Figures of data, models and training: each function gives a matplotlib figure, and ``save`` writes it."""

from deepcanon.lazy import listing
from deepcanon.pictures.curves import curves
from deepcanon.pictures.filters import filter_grid, responses
from deepcanon.pictures.images import image_grid, image_grids, rows
from deepcanon.pictures.matrices import confusion
from deepcanon.pictures.points import decision_map, latent_map, scatter, truth_plot
from deepcanon.pictures.run_pictures import draw_run, run_figures
from deepcanon.pictures.style import save

__all__ = [
    "confusion", "curves", "decision_map", "draw_run", "filter_grid", "image_grid", "image_grids", "latent_map",
    "responses", "rows", "run_figures", "save", "scatter", "truth_plot",
]  # fmt: skip
__dir__ = listing(__name__)
