"""``sparsefield demo``: learn a field from data that need no download."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sparsefield.app.cli.console import show

Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder for the pictures.")]
Quick = Annotated[bool, typer.Option("--quick", help="Use fewer rows and baselines.")]
Open = Annotated[bool, typer.Option("--open/--no-open", help="Open the page of pictures at the end.")]


def demo(out: Out = Path("demo"), quick: Quick = False, open_page: Open = True) -> None:
    """Learn a field over handwritten digits, predict missing pixels, and draw the result."""
    from sparsefield.app.demo.digits_demo import run_demo

    run_demo(out, quick, show)
    page = out / "index.html"
    if open_page and sys.stdout.isatty() and page.is_file():
        typer.launch(str(page))
