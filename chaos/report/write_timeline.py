"""Writes the timeline of a run as files: text, JSON, and a picture where matplotlib is installed."""

import json
from pathlib import Path

from chaos.report.timeline import Timeline
from chaos.report.timeline_text import describe


def write(timeline: Timeline, directory: Path, title: str = "") -> list[Path]:
    """Write timeline.txt and timeline.json, and timeline.png and timeline.svg where matplotlib is installed. Return the
    files. `title` stands above the picture."""
    text, document = directory / "timeline.txt", directory / "timeline.json"
    text.write_text(describe(timeline) + "\n", encoding="utf-8")
    document.write_text(json.dumps(timeline.document()) + "\n", encoding="utf-8")
    try:
        from chaos.report.timeline_picture import draw
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "matplotlib":
            raise
        return [text, document]
    pictures = [directory / "timeline.png", directory / "timeline.svg"]
    draw(timeline, title, pictures)
    return [text, document, *pictures]
