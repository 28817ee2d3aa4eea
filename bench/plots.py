"""Curves as pictures."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.figures import Curve

_INCHES = (7.0, 4.2)
_DOTS_PER_INCH = 110


def draw(curve: Curve, directory: Path) -> Path:
    """Write `bench-<name>.png` into the directory. Raises OSError."""
    with mpl.rc_context({"axes.grid": True, "grid.alpha": 0.3, "font.size": 9, "legend.frameon": False}):
        figure = Figure(figsize=_INCHES, layout="constrained")
        axes = figure.add_subplot(title=curve.title, xlabel=curve.x, ylabel=curve.y)
        for name, points in curve.series.items():
            axes.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=3.5, label=name)
        if curve.logarithmic:
            axes.set(xscale="log", yscale="log")
        else:
            axes.set(ylim=(0, None), xlim=(0, None))
        axes.legend()
        path = directory / f"bench-{curve.name}.png"
        # Without the version of the program, or every upgrade would change every picture.
        figure.savefig(path, dpi=_DOTS_PER_INCH, metadata={"Software": None})
    return path
