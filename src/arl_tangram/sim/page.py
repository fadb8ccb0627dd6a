"""A web page of headings, tables and figures in one file that needs no network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from .figures import Figure

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, sans-serif; color: #1f2933; background: #f5f7fa; margin: 0; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 1.7rem; margin: 0 0 4px; }
h2 { font-size: 1.25rem; margin: 40px 0 8px; }
p { margin: 4px 0 12px; max-width: 75ch; }
section { background: white; border: 1px solid #e4e7eb; border-radius: 10px; padding: 16px 20px;
  margin: 16px 0; overflow-x: auto; }
section h3 { font-size: 1.05rem; margin: 0 0 2px; }
section p { color: #52606d; font-size: .92rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 10px; text-align: right; border-bottom: 1px solid #e4e7eb;
  white-space: nowrap; }
th { font-weight: 600; color: #52606d; font-size: .85rem; white-space: normal;
  vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; font-weight: 600; }
tr:last-child td { border-bottom: 0; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOf:
    """Rows of text under column heads; the first column names the row."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A figure or a table, with its name and what there is to know about it."""

    title: str
    about: str = ""
    content: Figure | TableOf


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """Panels that belong together."""

    title: str
    about: str = ""
    panels: Sequence[Panel] = field(default=())


def page(title: str, *, about: str, chapters: Sequence[Chapter]) -> str:
    """The whole page as text; Plotly's script comes from the installed package, inside it."""
    # Half a second that only a page needs.
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]  # noqa: PLC0415

    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f"<script>{get_plotlyjs()}</script></head><body><main>",
        f"<h1>{escape(title)}</h1><p>{escape(about)}</p>",
    ]
    figures = 0
    for chapter in chapters:
        parts.append(f"<h2>{escape(chapter.title)}</h2>")
        if chapter.about:
            parts.append(f"<p>{escape(chapter.about)}</p>")
        for panel in chapter.panels:
            parts.append(f"<section><h3>{escape(panel.title)}</h3>")
            if panel.about:
                parts.append(f"<p>{escape(panel.about)}</p>")
            if isinstance(panel.content, TableOf):
                parts.append(_table(panel.content))
            else:
                parts.append(_figure(panel.content, number=figures))
                figures += 1
            parts.append("</section>")
    parts.append("</main></body></html>\n")
    return "\n".join(parts)


def _figure(figure: Figure, *, number: int) -> str:
    name = f"figure-{number}"
    data, layout = (_script_safe(figure[key]) for key in ("data", "layout"))
    options = '{"responsive": true, "displaylogo": false}'
    return (
        f'<div id="{name}"></div>'
        f'<script>Plotly.newPlot("{name}", {data}, {layout}, {options});</script>'
    )


def _script_safe(value: object) -> str:
    # A "</script>" inside a string would end the script element.
    return json.dumps(value, separators=(",", ":")).replace("</", "<\\/")


def _table(table: TableOf) -> str:
    heads = "".join(f"<th>{escape(head)}</th>" for head in table.heads)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
