"""One self-contained HTML page: no network, no scripts; readable on a phone, in light and dark.

    page = Page("staircase, mlp", "4 runs, 200,000 frames each")
    page.heading("Curves")
    page.figure(folder / "returns.svg", "Mean return of finished episodes.")
    page.write(folder / "report.html")

All text is escaped; figures are embedded.
"""

import base64
import io
import os
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from rich.console import Console
from rich.terminal_theme import NIGHT_OWLISH

from maskless.errors import MasklessError

_STYLE = """
:root { color-scheme: light dark; --text: #1c1e21; --dim: #5d636b; --back: #ffffff;
  --line: #d9dde2; --card: #f5f6f8; --accent: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e6ea; --dim: #9aa1ab; --back: #15171a;
  --line: #33383f; --card: #1e2126; --accent: #56b4e9; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; background: var(--back);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.2; margin: 0.5rem 0 0; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 0.5rem; padding-top: 0.6rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.4rem 0 0.3rem; }
p { margin: 0.5rem 0; max-width: 46rem; }
.dim, figcaption { color: var(--dim); font-size: 0.9rem; }
nav { display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; margin: 0.8rem 0; }
a { color: var(--accent); }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; margin: 0.8rem 0; }
figure { margin: 0; flex: 1 1 20rem; max-width: 29rem; }
figure img { display: block; width: 100%; height: auto; background: #fff; border-radius: 6px;
  border: 1px solid var(--line); }
figcaption { margin-top: 0.3rem; }
.scroll { overflow-x: auto; margin: 0.8rem 0; -webkit-overflow-scrolling: touch; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.6rem; text-align: right; white-space: nowrap; }
th { border-bottom: 2px solid var(--line); font-weight: 600; }
tr.group td { border-top: 1px solid var(--line); }
th.text, td.text { text-align: left; }
pre { overflow-x: auto; background: var(--card); border-radius: 6px; padding: 0.6rem;
  font: 0.8rem/1.25 ui-monospace, Menlo, Consolas, monospace; margin: 0.4rem 0; }
pre.screen { background: #15181c; color: #d7dbe0; }
ul { margin: 0.4rem 0; padding-left: 1.2rem; max-width: 46rem; }
details { margin: 0.6rem 0; }
summary { cursor: pointer; }
"""

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>$style</style>
</head>
<body>
<header><h1>$title</h1><p class="dim">$subtitle</p></header>
<nav>$links</nav>
<main>
$body
</main>
</body>
</html>
""")


class Page:
    """Parts one below the other, in the order in which they are added."""

    def __init__(self, title: str, subtitle: str = ""):
        self.title = title
        self.subtitle = subtitle
        self._parts: list[str] = []
        self._links: list[tuple[str, str]] = []

    def heading(self, text: str) -> None:
        """A section, with a link to it at the top of the page."""
        slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
        anchor = f"{slug}-{len(self._links) + 1}"
        self._links.append((anchor, text))
        self._parts.append(f'<h2 id="{anchor}">{escape(text)}</h2>')

    def subheading(self, text: str) -> None:
        self._parts.append(f"<h3>{escape(text)}</h3>")

    def text(self, text: str, *, dim: bool = False) -> None:
        self._parts.append(f"<p{' class=dim' if dim else ''}>{escape(text)}</p>")

    def bullets(self, lines: Iterable[str], *, dim: bool = False) -> None:
        items = "".join(f"<li>{escape(line)}</li>" for line in lines)
        self._parts.append(f"<ul{' class=dim' if dim else ''}>{items}</ul>")

    def link(self, text: str, address: str) -> None:
        """To a file beside the page."""
        self._parts.append(f'<p><a href="{escape(address)}">{escape(text)}</a></p>')

    def table(
        self, header: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int = 1
    ) -> None:
        """The first `text_columns` columns are text, the others numbers. A row whose first cell is
        empty belongs to the one above."""

        def line(cells: Sequence[str], tag: str, group: bool) -> str:
            made = "".join(
                f"<{tag}{' class=text' if number < text_columns else ''}>{escape(cell)}</{tag}>"
                for number, cell in enumerate(cells)
            )
            return f"<tr{' class=group' if group else ''}>{made}</tr>"

        body = "".join(line(row, "td", bool(row[0])) for row in rows)
        self._parts.append(
            f'<div class="scroll"><table><thead>{line(header, "th", False)}</thead>'
            f"<tbody>{body}</tbody></table></div>"
        )

    def figures(self, figures: Sequence[tuple[Path, str]]) -> None:
        """(SVG or PNG file, what it shows) side by side where there is room."""
        made = "".join(
            f'<figure><img alt="{escape(caption)}" src="{_embedded(path)}">'
            f"<figcaption>{escape(caption)}</figcaption></figure>"
            for path, caption in figures
        )
        self._parts.append(f'<div class="figures">{made}</div>')

    def preformatted(self, text: str) -> None:
        self._parts.append(f"<pre>{escape(text)}</pre>")

    def screen(self, picture: Any) -> None:
        """A picture for the terminal (anything `rich` prints), in its colours."""
        console = Console(file=io.StringIO(), width=100, record=True, highlight=False)
        console.print(picture)
        code = console.export_html(theme=NIGHT_OWLISH, code_format="{code}", inline_styles=True)
        lines = [line for line in code.splitlines() if re.sub("<[^>]*>", "", line).strip()]
        self._parts.append(f'<pre class="screen">{chr(10).join(lines)}</pre>')

    def folded(self, summary: str, text: str) -> None:
        """Preformatted text that is shown on demand."""
        self._parts.append(
            f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>"
        )

    def html(self) -> str:
        links = "".join(f'<a href="#{anchor}">{escape(text)}</a> ' for anchor, text in self._links)
        return _PAGE.substitute(
            title=escape(self.title),
            subtitle=escape(self.subtitle),
            style=_STYLE,
            links=links,
            body="\n".join(self._parts),
        )

    def write(self, path: Path) -> Path:
        """Replaces the file as a whole."""
        partial = path.with_name(f".{path.name}.partial")
        try:
            partial.write_text(self.html(), "utf-8")
            os.replace(partial, path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise MasklessError(f"Cannot write {path} ({error.strerror}).") from error
        return path


def _embedded(path: Path) -> str:
    """The file as a data address. As an image, not inline: names inside two SVGs may clash."""
    kind = {".svg": "image/svg+xml", ".png": "image/png"}[path.suffix]
    try:
        content = base64.b64encode(path.read_bytes()).decode()
    except OSError as error:
        raise MasklessError(f"Cannot read the figure {path} ({error.strerror}).") from error
    return f"data:{kind};base64,{content}"
