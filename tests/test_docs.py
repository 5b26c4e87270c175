"""The pages: purpose first, examples that run, links that lead on."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from mayfly.cli.app import COMMANDS
from mayfly.cli.outcomes import EXIT_CODES

ROOT = Path(__file__).parents[1]
CONTENTS = ROOT / "docs" / "README.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/pymqi/README.md")),
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
#: A program of the reader's own, by the page about clusters.
READERS_FILES = {"run_mayfly.py"}
SOURCE_FILES = [
    path.relative_to(ROOT).as_posix()
    for folder in ("mayfly", "tests", "bench", "examples", "deploy")
    for path in (ROOT / folder).rglob("*.py")
] + ["hatch_build.py"]

#: Pages to look things up in, and the list of pages.
WITHOUT_EXAMPLE = [
    CONTENTS,
    *(ROOT / f"{name}.md" for name in ("CONTRIBUTING", "SECURITY")),
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            *("ARCHITECTURE", "COMMANDS", "COMPATIBILITY", "GLOSSARY"),
            *("LIFETIME", "PERFORMANCE", "RULES"),
        )
    ),
]


class Paragraph(NamedTuple):
    """Prose without its line ends; ``line`` is where it begins."""

    line: int
    text: str


def prose(page: Path) -> list[Paragraph]:
    """Return paragraphs and list items; code, tables and headings are none."""
    found: list[Paragraph] = []
    is_code, is_open = False, False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        is_code ^= line.startswith("```")
        if is_code or not line.strip() or line.startswith(("```", "|", "#", "    ")):
            is_open = False
            continue
        bare = re.sub(r"^\s*(?:[*-]|\d+\.) ", "", line)
        if is_open and bare == line:
            found[-1] = Paragraph(found[-1].line, f"{found[-1].text} {line.strip()}")
        else:
            found.append(Paragraph(number, bare.strip()))
        is_open = True
    return found


def anchors(page: Path) -> set[str]:
    """Return the anchors of headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def named(page: Path) -> str:
    return page.relative_to(ROOT).with_suffix("").as_posix()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_begins_with_its_purpose(page: Path) -> None:
    title, blank, first, *_ = page.read_text("utf-8").splitlines()
    assert title.startswith("# ")
    assert not blank
    assert re.match(r"[A-Z`*\[]", first), first


def test_a_page_about_doing_something_has_an_example_that_a_test_runs() -> None:
    """Such a test reads the page by its name, and runs code, a command or what a command prints."""
    runs = re.compile(r"\bexec\(|shlex\.split\(|CliRunner|parse_rules\(|_lines\(|\.mqsc\(")
    texts = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py")]
    runners = [text for text in texts if runs.search(text)]
    for page in PAGES:
        if page in WITHOUT_EXAMPLE:
            continue
        assert re.search(r"^```(?:python|console)?$", page.read_text("utf-8"), re.MULTILINE), page
        assert any(page.name in text for text in runners), page


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_to_a_page_and_a_heading(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_files_of_the_source_that_a_page_names_are_there(page: Path) -> None:
    """A file may be named by the end of its path: `commit.py`, `engine/commit.py`."""
    named_files = set(re.findall(r"`([\w/]*\w\.py)`", page.read_text("utf-8"))) - READERS_FILES
    missing = [
        file
        for file in sorted(named_files)
        if not any(f"/{path}".endswith(f"/{file}") for path in SOURCE_FILES)
    ]
    assert not missing


def test_the_contents_name_every_page_once() -> None:
    linked = re.findall(r"^\| \[\w+\]\((\w+\.md)\)", CONTENTS.read_text("utf-8"), re.MULTILINE)
    assert sorted(linked) == sorted(p.name for p in CONTENTS.parent.glob("*.md") if p != CONTENTS)


def test_the_page_of_commands_names_each_with_its_exit_codes() -> None:
    text = (ROOT / "docs" / "COMMANDS.md").read_text("utf-8")
    rows = re.findall(r"^\| ((?:`[a-z]+`(?:, )?)+) \|", text, re.MULTILINE)
    assert sorted(re.findall(r"`([a-z]+)`", " ".join(rows))) == sorted(COMMANDS)
    codes = re.findall(r"^\| (\d+) \| (.+) \|$", text, re.MULTILINE)
    assert [f"{code:<5}{meaning}" for code, meaning in codes] == re.findall(r"\d+ +.+", EXIT_CODES)


# The checks, on prose that is bad on purpose


#: No paragraph ends with one of these words: the rest of its sentence was cut.
OPEN_ENDS = frozenset("a an and as at by for from in into is it of on or that the to with".split())
SEPARATOR = re.compile(r"\|[-| :]+\|")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_merge_has_cut_a_page(page: Path) -> None:
    """A merge of two versions leaves heads without rows, sentences without ends, and doubles."""
    lines = page.read_text("utf-8").splitlines()
    separators = [n for n, line in enumerate(lines) if SEPARATOR.fullmatch(line)]
    heads = [n + 1 for n in separators if not lines[n + 1 : n + 2] or lines[n + 1][:1] != "|"]
    doubled = [n + 1 for n in separators if n + 2 in separators]
    assert (heads, doubled) == ([], [])
    paragraphs = prose(page)
    text = "\n".join(line for line in lines if not line.startswith("#"))
    # A list, a table or an example may go on with the sentence.
    ends = re.findall(r"\b([a-z]+)\n\n(?![*|`]| {4}|\d+\.)", text)
    assert [word for word in ends if word in OPEN_ENDS] == []
    words = [set(re.findall(r"\w{4,}", p.text.lower())) for p in paragraphs]
    for one, other, paragraph in zip(words, words[1:], paragraphs[1:], strict=False):
        alike = len(one & other) / (len(one | other) or 1)
        assert len(one) < 5 or alike < 0.6, paragraph
