"""No number in a sentence of our pages is typed, unless it is listed with a reason."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from paper.theory.test_page import theory_sentences

from maskless.errors import MasklessError
from maskless_paper import prose

ROOT = Path(__file__).parents[2]
TYPED = tomllib.loads((ROOT / "results" / "typed-numbers.toml").read_text())
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
PAGES.remove("docs/claims.md")  # all of it is made
PAGE = """# Title 1

<!-- table -->
| 17.5 |
<!-- /table -->

It keeps <!--n kept-->98 %<!--/n--> with `gamma=2` ([see](page-3.md)), as in 2024.
"""


def test_a_number_is_made_anew():
    made = prose.fill(PAGE, {"kept": lambda: "97 %"})
    assert made == PAGE.replace("98 %", "97 %")
    with pytest.raises(MasklessError, match="kept"):
        prose.fill(PAGE, {})


def test_a_typed_number_is_found_wherever_it_stands():
    allowed = [r"Title \d", r"\b20\d\d\b"]
    assert prose.unbacked(PAGE, allowed) == []
    assert prose.unbacked(PAGE, []) == ["1", "2024."]
    typed = {
        "It keeps 0.97 of it.": ["0.97"],
        "| kept | 4e-10 |": ["4e-10"],
        "falls 300-fold (1/250)": ["300-fold", "1/250"],
    }
    for text, found in typed.items():
        assert prose.unbacked(f"{PAGE}\n{text}\n", allowed) == found


PRIOR_WORK = {
    *("2006.14171", "2006.14978", "2404.04772", "2502.13443", "1809.02121"),
    "10.3390/app13148283",
}
"""Of those who masked, learned masks or took them away before us; arXiv numbers, and a DOI."""


def test_prior_work_is_named_wherever_we_say_what_is_ours():
    for page in ("README.md", "docs/prior-work.md"):
        text = (ROOT / page).read_text()
        assert not [work for work in PRIOR_WORK if work not in text], page


def test_who_cites_us_is_told_whom_else_to_cite():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    places = {one.get("doi") or one["url"].rpartition("/")[2] for one in cited["references"]}
    assert places == PRIOR_WORK | {"2603.09090"}
    for one in cited["references"]:
        assert {"type", "title", "authors", "year"} <= set(one)
        assert all({"family-names", "given-names"} == set(name) for name in one["authors"])


def test_listed_pages_exist():
    assert set(TYPED["pages"]) <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_pages_have_no_number_that_no_file_backs(page):
    lists = TYPED["pages"].get(page, {}).values()
    phrases = [phrase for listed in lists for phrase in listed]
    if page == "docs/theory.md":
        code = re.compile("`[^`]+`")  # does not count
        phrases += [" ".join(code.sub(" ", one).split()) for one in theory_sentences()]
    phrases.sort(key=len, reverse=True)  # some are parts of others
    general = [rule["pattern"] for rule in TYPED["everywhere"]]
    found = prose.unbacked((ROOT / page).read_text(), [*map(re.escape, phrases), *general])
    assert not found, (
        f"{page} has numbers that no file backs: {found}. Make them (maskless_paper.numbers, and"
        " <!--n NAME--><!--/n--> on the page), or list them in results/typed-numbers.toml."
    )
