"""One self-contained HTML page: no network, no scripts; readable on a phone, in light and dark.

    page = Page("staircase, mlp", "4 runs, 200,000 frames each")
    page.heading("Curves")
    page.figure(folder / "returns.svg", "Mean return of finished episodes.")
    page.write(folder / "report.html")

All text is escaped, `what stands in backticks` is code; figures are embedded.
"""

import base64
import html
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

from rich.terminal_theme import NIGHT_OWLISH

from maskless.files import printable, read_bytes, write_text
from maskless.report.text import recorded

_TEMPLATE = Path(__file__).with_name("page.html")


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
        self._parts.append(f"<p{' class=dim' if dim else ''}>{_marked(text)}</p>")

    def bullets(self, lines: Iterable[str], *, dim: bool = False) -> None:
        items = "".join(f"<li>{_marked(line)}</li>" for line in lines)
        self._parts.append(f"<ul{' class=dim' if dim else ''}>{items}</ul>")

    def link(self, text: str, address: str) -> None:
        """To a file beside the page."""
        quoted = quote(f"./{address}")  # a folder may be called `javascript:...`, or have a `#`
        self._parts.append(f'<p><a href="{escape(quoted)}">{escape(text)}</a></p>')

    def table(
        self, header: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int = 1
    ) -> None:
        """The first `text_columns` columns are text, the others numbers. A row whose first cell is
        empty belongs to the one above."""

        def line(cells: Sequence[str], tag: str, group: bool) -> str:
            joined = "".join(
                f"<{tag}{' class=text' if number < text_columns else ''}>{escape(cell)}</{tag}>"
                for number, cell in enumerate(cells)
            )
            return f"<tr{' class=group' if group else ''}>{joined}</tr>"

        body = "".join(line(row, "td", bool(row[0])) for row in rows)
        self._parts.append(
            f'<div class="scroll"><table><thead>{line(header, "th", False)}</thead>'
            f"<tbody>{body}</tbody></table></div>"
        )

    def figures(self, figures: Sequence[tuple[Path, str]]) -> None:
        """(SVG or PNG file, what it shows) side by side where there is room."""
        joined = "".join(
            f'<figure><img alt="{escape(caption)}" src="{_embedded(path)}">'
            f"<figcaption>{escape(caption)}</figcaption></figure>"
            for path, caption in figures
        )
        self._parts.append(f'<div class="figures">{joined}</div>')

    def screen(self, picture: Any) -> None:
        """A picture for the terminal (anything `rich` prints), in its colours."""
        how: Any = {"theme": NIGHT_OWLISH, "code_format": "{code}", "inline_styles": True}
        code = recorded(picture).export_html(**how)
        lines = [line for line in code.splitlines() if re.sub("<[^>]*>", "", line).strip()]
        self._parts.append(f'<pre class="screen">{chr(10).join(lines)}</pre>')

    def folded(self, summary: str, text: str) -> None:
        """Preformatted text that is shown on demand."""
        self._parts.append(
            f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>"
        )

    def html(self) -> str:
        links = "".join(f'<a href="#{anchor}">{escape(text)}</a> ' for anchor, text in self._links)
        return Template(_TEMPLATE.read_text("utf-8")).substitute(
            title=escape(self.title),
            subtitle=escape(self.subtitle),
            links=links,
            body="\n".join(self._parts),
        )

    def write(self, path: Path) -> Path:
        """Replaces the file as a whole."""
        write_text(path, self.html())
        return path


def escape(text: str) -> str:
    """For HTML, and without what turns the direction of writing."""
    return html.escape(printable(text))


def _marked(text: str) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _embedded(path: Path) -> str:
    """The file as a data address. As an image, not inline: names inside two SVGs may clash. A link
    is not followed: it may lead to what is not meant for others."""
    kind = {".svg": "image/svg+xml", ".png": "image/png"}[path.suffix]
    content = base64.b64encode(read_bytes(path, follow=False)).decode()
    return f"data:{kind};base64,{content}"
