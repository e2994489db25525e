"""Colours and the hand of all pictures, here and in chaos: drawn once, readable on white paper and on a dark screen.

The hues keep apart for colour-blind readers (after Okabe and Ito) and in grey; what a colour means is always said in
words beside it as well. An SVG made for a page names its colours as CSS variables, so the page decides what they are on
a dark screen.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

INK, SOFT, FAINT, PAPER = "#1d2530", "#66717f", "#e3e7ec", "#ffffff"
BLUE, SKY, TEAL, AMBER, RED, VIOLET, GREY = (
    "#1f63c4",
    "#6fb1ef",
    "#0b8f7c",
    "#d98a06",
    "#c8412b",
    "#8a55c7",
    "#9aa5b1",
)
#: Colour in a drawing -> the page's variable, with itself as what to fall back to.
VARIABLES: Final = {
    INK: "--ink",
    SOFT: "--soft",
    FAINT: "--faint",
    PAPER: "--paper",
    BLUE: "--blue",
    SKY: "--sky",
    TEAL: "--teal",
    AMBER: "--amber",
    RED: "--red",
    VIOLET: "--violet",
    GREY: "--grey",
}
_FONTS: Final = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
_STYLE: Final[Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "text.color": INK,
    "axes.facecolor": PAPER,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": SOFT,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.fonttype": "none",
    "svg.hashsalt": "hourwheel",
}


@contextmanager
def style() -> Iterator[None]:
    """Figures made and saved inside have this hand."""
    with mpl.rc_context(_STYLE):
        yield


def svg(figure: Figure) -> str:
    """The figure as an SVG document; the same figure gives the same bytes. Text stays text, in the reader's font."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r"font-family: [^;\"]*; ?", "", written.getvalue())
    return text.replace("<svg ", f'<svg font-family="{_FONTS}" ', 1)


def inline(figure: Figure, name: str, described: str) -> str:
    """An <svg> element for a page, scaled to its width, with its colours as the page's variables. `name` keeps its ids
    apart from other pictures'; `described` is read aloud in its place.
    """
    text = svg(figure)
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<svg ([^>]*?)height="[^"]*"([^>]*?)width="[^"]*"', r"<svg \1\2", text, count=1)
    text = re.sub(r'<svg ([^>]*?)width="[^"]*"([^>]*?)height="[^"]*"', r"<svg \1\2", text, count=1)
    text = text.replace("<svg ", f'<svg role="img" aria-label="{_escaped(described)}" ', 1)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    text = re.sub(r'href="#', f'href="#{name}-', text)
    for colour, variable in VARIABLES.items():
        text = re.sub(colour, f"var({variable}, {colour})", text, flags=re.IGNORECASE)
    return text.strip()


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
