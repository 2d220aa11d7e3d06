"""HTML by hand: text is escaped here, and nowhere else is markup made of data."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

__all__ = ["Cell", "absent", "asset", "bullets", "document", "figure", "paragraph", "section", "table"]


def asset(name: str) -> str:
    """A style or script that lies beside this file."""
    return (files("sparsefield.viz.report") / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Cell:
    """A cell of a table: text, or ready ``markup``; ``value`` is what it sorts by."""

    text: str = ""
    kind: str = "number"
    value: float | None = None
    markup: str = ""

    def render(self) -> str:
        value = "" if self.value is None else f' data-value="{self.value:.6g}"'
        return f'<td class="{self.kind}"{value}>{self.markup or escape(self.text)}</td>'


def paragraph(words: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(words)}</p>' if kind else f"<p>{escape(words)}</p>"


def absent(words: str) -> str:
    """What stands where a part of the page cannot be made."""
    return paragraph(words, "absent")


def bullets(lines: Sequence[str]) -> str:
    """A list; the lines are markup."""
    return f'<ul class="words">{"".join(f"<li>{line}</li>" for line in lines)}</ul>' if lines else ""


def figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def section(name: str, title: str, *parts: str) -> str:
    return f'<section id="{name}"><h2>{escape(title)}</h2>\n' + "\n".join(filter(None, parts)) + "</section>\n"


def table(
    heads: Sequence[str], rows: Sequence[Sequence[Cell]], *, words: Sequence[int] = (0,), sortable: bool = False
) -> str:
    """A table whose columns ``words`` hold text; with ``sortable`` heads are buttons, once a script runs."""

    def head(k: int, name: str) -> str:
        inside = f'<button type="button">{escape(name)}</button>' if sortable and name else escape(name)
        kind = ' class="words"' if k in words else ""
        return f'<th scope="col"{kind}>{inside}</th>'

    names = "".join(head(k, name) for k, name in enumerate(heads))
    body = "".join(f"<tr>{''.join(cell.render() for cell in row)}</tr>\n" for row in rows)
    kinds = "card tall" if len(rows) > 20 else "card"
    attribute = ' class="sortable"' if sortable else ""
    return f'<div class="{kinds}"><table{attribute}><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>'


def document(title: str, body: str, *, style: str, scripts: Sequence[str], kind: str = "") -> str:
    """A whole page. Its policy lets nothing be loaded, and no style or script run but those that are given here."""
    allowed = " ".join(map(_digest, scripts)) or "'none'"
    policy = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src {_digest(style)}; script-src {allowed}"
    )
    ending = "".join(f"<script>{script}</script>\n" for script in scripts)
    attribute = f' class="{kind}"' if kind else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{escape(title)}</title><style>{style}</style></head>\n"
        f"<body{attribute}>{body}\n{ending}</body></html>\n"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
