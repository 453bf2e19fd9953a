"""The page escapes what it is given and embeds what it shows."""

import base64
import html.parser

import pytest

from maskless.errors import MasklessError
from maskless.report.page import Page

OPEN_ENDED = ("meta", "img")


class Balance(html.parser.HTMLParser):
    """Every tag that is opened is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open, self.texts, self.images = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag == "img":
            self.images.append(dict(attributes)["src"])
        if tag not in OPEN_ENDED:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def full_page(folder):
    picture = folder / "dot.svg"
    picture.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    page = Page("a < b & c", "$title <script>")
    page.heading("One & two")
    page.subheading("<h3>")
    page.text("x < y", dim=True)
    page.text("run `maskless <b>`")
    page.bullets(["<li>", "b"])
    page.table(["name", "1"], [["<td>", "2"], ["", "3"]])
    page.figures([(picture, 'a "dot"')])
    page.folded("more", "</pre>")
    return page, picture


def test_all_text_is_escaped_and_all_tags_are_closed(tmp_path):
    page, picture = full_page(tmp_path)
    balance = Balance()
    balance.feed(page.html())
    assert balance.open == []
    assert "run <code>maskless &lt;b&gt;</code>" in page.html()
    for text in ("a < b & c", "$title <script>", "x < y", "<td>", "</pre>"):
        assert text in balance.texts
    kind, _, content = balance.images[0].partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(content) == picture.read_bytes()


def test_the_page_is_written_as_a_whole_or_not_at_all(tmp_path):
    page, picture = full_page(tmp_path)
    path = page.write(tmp_path / "page.html")
    assert path.read_text() == page.html()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dot.svg", "page.html"]
    with pytest.raises(MasklessError, match="Cannot write"):
        page.write(tmp_path / "nowhere" / "page.html")
    with pytest.raises(MasklessError, match=r"missing.svg cannot be used"):
        page.figures([(picture.with_name("missing.svg"), "")])
