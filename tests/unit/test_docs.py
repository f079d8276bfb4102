"""The pages that people read, held to the code and to each other; `tests/cluster/test_docs.py` runs their commands."""

from __future__ import annotations

import ast
import functools
import itertools
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer.main

from edgewright.cli import command_line
from edgewright.runtime import errors
from hack import reference
from tests.cluster.differential.known import KNOWN
from tests.documents import ON_MACHINES, ROOT, THE_TEST_ITSELF, Command, blocks, commands, makefile, matches, pages

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


def test_every_promise_and_every_advice_on_security_links_a_test() -> None:
    text = (DOCS / "security.md").read_text(encoding="utf-8")
    checked = text.partition("## What is checked, and where\n")[2].partition("\n## ")[0]
    promises = [line for line in checked.splitlines() if line.startswith("| ")][1:]
    hardening = text.partition("## Hardening a shared cluster\n")[2]
    advice = re.split(r"^\d+\. ", hardening, flags=re.MULTILINE)[1:]
    assert len(promises) > 30
    assert len(advice) > 10
    assert [each for each in (*promises, *advice) if "](../tests/" not in each] == []


def test_the_index_names_every_page() -> None:
    index = DOCS / "README.md"
    named = {(DOCS / link.partition("#")[0]).resolve() for link in links(index)}
    assert set(DOCS.rglob("*.md")) - named == {index} | ({MEASURED} if MEASURED.exists() else set())


@pytest.mark.parametrize("picture", sorted((DOCS / "pictures").glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_is_well_formed_and_says_in_words_what_it_shows(picture: Path) -> None:
    top = ET.parse(picture).getroot()
    space = {"svg": "http://www.w3.org/2000/svg"}
    assert top.find("svg:title", space) is not None
    assert top.find("svg:desc", space) is not None
    assert "prefers-color-scheme: dark" in picture.read_text(encoding="utf-8")


def test_every_picture_is_drawn_or_taken_by_a_test_and_small() -> None:
    for picture in (DOCS / "pictures").iterdir():
        assert picture.suffix == ".svg" or picture.name.startswith("console-"), picture
        assert picture.stat().st_size < 200_000, picture


def test_the_reference_is_what_the_code_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert reference.main([str(DOCS / "reference"), "--check"]) == 0, capsys.readouterr().err


def test_a_reference_that_differs_is_reported_and_written_again(
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
    assert named <= set(re.findall(r"^([a-z0-9-]+):", dump, flags=re.MULTILINE))
    assert named <= THE_TEST_ITSELF
    assert "test" in named


def test_no_command_on_a_page_hides_the_failure_of_another_inside_it() -> None:
    # `export NAME=$(command)` ends with 0 whatever the command did, for its reader and for the test that runs the page.
    assert [str(each) for each in all_commands() if re.search(r"\bexport\b[^;&|]*=[\"']?\$\(", each.text)] == []


def test_a_page_that_is_not_followed_on_one_machine_is_followed_by_a_test_of_its_own() -> None:
    for page, test in ON_MACHINES.items():
        assert commands(page)
        assert page.name in test.read_text(encoding="utf-8")


def test_every_target_in_running_text_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):.* ## ", makefile(), flags=re.MULTILINE))
    for page in pages():
        named = set(re.findall(r"`make ([a-z0-9-]+)", page.read_text(encoding="utf-8")))
        assert named <= targets, page


@functools.cache
def whole_command_line() -> Any:
    """All that can be typed; the pages name hundreds of commands, and to join them all takes a while."""
    return typer.main.get_command(command_line())


def options_of(words: Sequence[str]) -> set[str]:
    """What an `edgewright` command takes; KeyError where there is none of these words."""
    command = whole_command_line()
    for word in words:
        if not hasattr(command, "commands"):
            break  # what follows are its arguments
        command = command.commands[word]
    return {"--help", *(name for option in command.params for name in (*option.opts, *option.secondary_opts))}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_command_of_ours_in_running_text_can_be_typed(page: Path) -> None:
    for shown in re.findall(r"`edgewright( [^`]+)`", prose(page).replace("\n", " ")):
        ours, _, _ = shown.partition(" -- ")  # what comes behind it is another program's
        words, *options = re.split(r" (?=--)", ours)
        known = options_of(words.split())
        assert {option.split()[0].partition("=")[0] for option in options} <= known, f"edgewright{shown}"


def test_a_command_that_there_is_not_cannot_be_typed() -> None:
    assert "--no-leader-elect" in options_of(["run"])
    assert "--dry-run" in options_of(["crds", "install"])
    with pytest.raises(KeyError):
        options_of(["crds", "remove"])


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


@functools.cache
def texts_in_the_code() -> frozenset[str]:
    """Every text that the code holds and is no docstring; in one with values in it, `…` stands for each of these."""
    return frozenset(_texts())


def _texts() -> Iterator[str]:
    for folder in (ROOT / "src", ROOT / "tests" / "harness"):
        for path in folder.rglob("*.py"):
            whole = ast.parse(path.read_text(encoding="utf-8"))
            parts: set[ast.AST] = set()
            for node in ast.walk(whole):
                if isinstance(node, ast.Expr):
                    parts.add(node.value)  # it is said to nobody
                elif isinstance(node, ast.JoinedStr):
                    parts.update(node.values)
            for node in ast.walk(whole):
                if node in parts:
                    continue
                if isinstance(node, ast.JoinedStr):
                    yield "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def joined(message: str) -> Iterator[list[str]]:
    """Every way in which a message can be one or several texts: a reason or a field before it, a cause behind it."""
    places = [found.start() for found in re.finditer(r": |; |(?<=…) ", message)]
    for count in range(len(places) + 1):
        for cuts in itertools.combinations(places, count):
            yield [message[begin:end] for begin, end in itertools.pairwise((0, *cuts, len(message)))]


def is_said(part: str, known: str, *, goes_on: bool) -> bool:
    """Whether the words of a part stand in one text, in their order; where another `goes_on` in a value, at its end."""
    words = [re.escape(each.strip()) for each in part.strip(":; …").split("…")]
    begins, ends = "^ *" if part.startswith(" ") else "", "[… ]*$" if goes_on else ""
    return not any(words) or re.search(f"{begins}{'.*'.join(words)}{ends}", known, flags=re.MULTILINE) is not None


def unsaid(messages: list[str], known: Iterable[str]) -> list[str]:
    """The messages that nothing in the code says."""
    asked = functools.cache(functools.partial(is_said, known="\n".join(each.replace("\n", " ") for each in known)))

    def says(parts: list[str]) -> bool:
        following = (*parts[1:], "")
        return all(asked(each, goes_on=after.startswith(" ")) for each, after in zip(parts, following, strict=True))

    return [message for message in messages if not any(map(says, joined(message)))]


def test_every_message_in_troubleshooting_is_one_that_the_code_writes() -> None:
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    messages: list[str] = re.findall(r"^### `(.+)`$", text, flags=re.MULTILINE)
    assert len(messages) > 30
    assert unsaid(messages, texts_in_the_code()) == []


@pytest.mark.parametrize(
    ("message", "right"),
    [
        ("the lease … is held by … now", True),
        ("the lease … now", True),
        ("the lease … now … is held by", False),
        ("the lease … is sent", False),
        ("LeaseLost: the lease … is held by … now", True),
        ("the command … was not found…", True),
        ("the command … is held by …", False),
        ("the address … failed", False),
        ("…: nothing is sent; the lease … is held by … now", True),
    ],
)
def test_a_message_is_looked_for_as_it_is_written(message: str, right: bool) -> None:
    known = ("the lease … is held by … now", "LeaseLost", "nothing is sent", "…: the command … …", "was not found…")
    assert unsaid([message], (*known, "the address … is none", "failed")) == ([] if right else [message])


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


def test_a_target_with_a_hyphen_is_another_target(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ make test-image\n$ make verify SKIP=cluster\n```\n")
    assert [each.target for each in commands(page)] == [None, "verify"]


def test_every_known_difference_from_the_real_server_is_in_the_docs_and_no_other() -> None:
    text = (DOCS / "embedded.md").read_text(encoding="utf-8")
    listed = text.partition("<!-- known differences -->\n")[2].partition("<!-- end of known differences -->")[0]
    assert listed == "".join(f"- {each.reason}\n" for each in KNOWN)
    assert len(KNOWN) <= 15
