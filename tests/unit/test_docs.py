"""The pages that people read, held to the code and to each other; `tests/cluster/test_docs.py` runs their commands."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgewright.runtime import errors
from hack import reference
from tests.cluster.differential.known import KNOWN
from tests.documents import ROOT, THE_TEST_ITSELF, Command, blocks, commands, matches, pages

DOCS = ROOT / "docs"
MEASURED = DOCS / "benchmarks.md"
"""Written by `make bench`, which takes long: a checkout may be without it."""

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def name_of(path: Path) -> str:
    """A file as people call it, for the names of tests."""
    return str(path.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def links(page: Path) -> list[str]:
    """Where a page's links lead; what stands between backticks is no link."""
    return LINK.findall(re.sub(r"`[^`\n]*`", "", prose(page)))


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_link_within_the_repository_leads_somewhere(page: Path) -> None:
    for link in links(page):
        if re.match(r"https?://", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if target == MEASURED:
            continue
        assert target.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{link}: there is no such heading"


def test_the_index_names_every_page() -> None:
    index = DOCS / "README.md"
    named = {(DOCS / link.partition("#")[0]).resolve() for link in links(index)}
    assert set(DOCS.rglob("*.md")) - named == {index} | ({MEASURED} if MEASURED.exists() else set())


@pytest.mark.parametrize("picture", sorted((DOCS / "pictures").iterdir()), ids=lambda path: path.name)
def test_a_picture_is_well_formed_and_says_in_words_what_it_shows(picture: Path) -> None:
    top = ET.parse(picture).getroot()
    space = {"svg": "http://www.w3.org/2000/svg"}
    assert top.find("svg:title", space) is not None
    assert top.find("svg:desc", space) is not None
    assert "prefers-color-scheme: dark" in picture.read_text(encoding="utf-8")


def test_the_reference_is_what_the_code_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert reference.main([str(DOCS / "reference"), "--check"]) == 0, capsys.readouterr().err


def test_a_reference_that_differs_is_reported_and_written_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reference.main([str(tmp_path), "--check"]) == 1
    assert f"{tmp_path / 'kinds.md'} differs from the code, run: make manifests" in capsys.readouterr().err
    assert reference.main([str(tmp_path)]) == 0
    (tmp_path / "commands.md").write_text("edited by hand")
    assert reference.main([str(tmp_path), "--check"]) == 1
    assert reference.main([str(tmp_path)]) == 0
    assert reference.main([str(tmp_path), "--check"]) == 0


def all_commands() -> list[Command]:
    return [command for page in pages() for command in commands(page)]


def test_a_target_that_a_page_names_and_no_test_can_run_is_in_the_makefile() -> None:
    # Asked for `help`, because make runs lines with $(MAKE) in them even in a dry run, and `test` has one.
    dump = subprocess.run(
        ["make", "--dry-run", "--print-data-base", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    named = {command.target for command in all_commands()} - {None}
    assert named <= set(re.findall(r"^([a-z0-9]+):", dump, flags=re.MULTILINE))
    assert named <= THE_TEST_ITSELF
    assert "test" in named


def test_every_target_in_running_text_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z0-9]+):.* ## ", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for page in pages():
        named = set(re.findall(r"`make ([a-z0-9]+)\b", page.read_text(encoding="utf-8")))
        assert named <= targets, page


def test_the_python_on_the_pages_is_as_we_write_it(tmp_path: Path) -> None:
    for page in pages():
        folder = tmp_path / page.stem
        for block in blocks(page):
            if block.language == "python":
                assert block.file, f"{page}:{block.line}: a test runs only what is a file"
                folder.mkdir(exist_ok=True)
                (folder / block.file).write_text(block.text, encoding="utf-8")
    assert list(tmp_path.rglob("*.py"))
    ruff = [sys.executable, "-m", "ruff"]
    style = ["--isolated", "--no-cache", "--line-length=120", str(tmp_path)]
    checks = ["--select=A,ANN,B,C4,E,F,N,PIE,RET,SIM,UP,W", "--target-version=py311"]
    for command in ([*ruff, "check", *checks, *style], [*ruff, "format", "--check", *style]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def texts_in_the_code() -> Iterator[str]:
    """Every string that the code holds, also the fixed parts of those with values in them."""
    for folder in (ROOT / "src", ROOT / "tests" / "harness"):
        for path in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def test_every_message_in_troubleshooting_is_one_that_the_code_writes() -> None:
    known = list(texts_in_the_code())
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    messages: list[str] = re.findall(r"^### `(.+)`$", text, flags=re.MULTILINE)
    assert len(messages) > 30
    for message in messages:
        for part in filter(None, (each.strip(" ;:") for each in message.split("…"))):
            assert any(part in each for each in known), f"{message}: nothing in the code says {part!r}"


def test_every_error_is_explained_in_architecture() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE))
    raised = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.KubernetesError)
    }
    assert explained == raised - {"KubernetesError"}


def test_every_module_of_the_runtime_is_placed_in_architecture() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    for module in (ROOT / "src" / "edgewright" / "runtime").glob("[a-z]*.py"):
        assert f"`{module.stem}`" in text, module


def test_every_field_of_a_kubeconfig_that_is_explained_is_one_that_is_read() -> None:
    text = (DOCS / "howto-kubeconfig.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:cluster|user|context) \| (.+?) \|", text, flags=re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    known = {each for each in texts_in_the_code() if re.fullmatch(r"[\w-]+", each)}
    assert {name.removesuffix("-data") for name in explained} <= known
    assert "proxy-url" in explained


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        (("created",), "created\n", True),
        (("created",), "unchanged\n", False),
        (("NAME  AGE", "a  ..."), "NAME   AGE\na      3s\n", True),
        (("NAME  AGE", "a  ..."), "NAME   AGE\nb      3s\n", False),
        (("first", "..."), "first\nsecond\nthird\n", True),
        (("...", "third"), "first\nsecond\nthird\n", True),
        (("...", "third"), "first\nsecond\n", False),
        (("first",), "first\nsecond\n", False),
    ],
)
def test_what_a_page_shows_is_compared_with_what_was_printed(shown: tuple[str, ...], printed: str, fits: bool) -> None:
    assert matches(shown, printed) is fits


def test_a_command_goes_on_after_a_backslash_and_ends_with_its_output(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo a \\\n  b\na b\n$ make test\n```\n")
    found = commands(page)
    assert [(each.line, each.text, each.output, each.target) for each in found] == [
        (2, "echo a \\\n  b", ("a b",), None),
        (5, "make test", (), "test"),
    ]


def test_every_known_difference_from_the_real_server_is_in_the_docs_and_no_other() -> None:
    text = (DOCS / "embedded.md").read_text(encoding="utf-8")
    listed = text.partition("<!-- known differences -->\n")[2].partition("<!-- end of known differences -->")[0]
    assert listed == "".join(f"- {each.reason}\n" for each in KNOWN)
    assert len(KNOWN) <= 15
