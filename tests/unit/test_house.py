"""The rules of the house: what every file in it must have, and what none may have. import-linter holds the layers."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents import makefile

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "edgewright"
MODULES = sorted(SOURCE.rglob("*.py"))
MAX = 500

# In two parts, so that this file may be in the repository.
REGISTRIES = tuple(
    f"{name}.{end}"
    for name, end in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("proxy.golang", "org"),
        ("sum.golang", "org"),
        ("registry.npmjs", "org"),
        ("crates", "io"),
        ("deb.debian", "org"),
    )
)
# Words that people who read English as a second language look up, and what is written instead.
PLAIN_WORDS = {
    "a" + "new": "again",
    "be" + "side": "next to",
    "me" + "nd": "fix",
    "me" + "nded": "fixed",
    "sh" + "all": "must",
}
MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:root|work|tmp)/[\w.-]")


def name_of(path: Path) -> str:
    """A file as people call it, for the names of tests."""
    return str(path.relative_to(ROOT))


def files_of_ours() -> list[Path]:
    """What git has, or would take."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def without_docstring(node: ast.Module | ast.ClassDef, name: str) -> Iterator[str]:
    """The public names at and below a module or class that say nothing about themselves."""
    if ast.get_docstring(node) is None:
        yield name
    for inner in node.body:
        if not isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or inner.name.startswith("_"):
            continue
        if isinstance(inner, ast.ClassDef):
            yield from without_docstring(inner, f"{name}.{inner.name}")
        elif ast.get_docstring(inner) is None and not any(
            isinstance(each, ast.Name) and each.id == "overload" for each in inner.decorator_list
        ):
            yield f"{name}.{inner.name}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_public_name_says_what_it_is(path: Path) -> None:
    assert list(without_docstring(ast.parse(path.read_text(encoding="utf-8")), path.stem)) == []


def test_a_name_without_a_docstring_is_found() -> None:
    described, private = 'class A:\n    """A."""\n    def b(self): ...\n    def _c(self): ...\n', "class _E: ...\n"
    source = f'"""Module."""\n{described}def d(): ...\n{private}'
    assert list(without_docstring(ast.parse(source), "m")) == ["m.A.b", "m.d"]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_can_be_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX


def test_yaml_is_read_and_written_as_kubernetes_does() -> None:
    own = {"runtime/yaml_loader.py", "runtime/yaml_dumper.py"}
    own.add("local/access/kubeconfig.py")  # it changes nodes of a file and leaves the others as they were written
    others = [path for path in MODULES if not path.as_posix().endswith(tuple(own))]
    pattern = re.compile(r"yaml\.(safe_|full_|unsafe_)|C?Safe(Loader|Dumper)\b(?!\):|,)")
    found = {name_of(path): pattern.findall(path.read_text(encoding="utf-8")) for path in others}
    assert {name: hits for name, hits in found.items() if hits} == {}


def test_no_room_is_empty() -> None:
    rooms = [path.parent for path in MODULES if path.name == "__init__.py"]
    assert len(rooms) > 3
    for room in rooms:
        assert [path for path in room.rglob("*.py") if path.name != "__init__.py"], f"{room} is empty"


def offences(text: str) -> list[str]:
    """The lines that name a package registry or a path of somebody's machine."""
    return [line for line in text.splitlines() if MACHINE_PATH.search(line) or any(host in line for host in REGISTRIES)]


def test_no_file_names_a_package_registry_or_a_path_of_this_machine() -> None:
    found = {}
    for path in files_of_ours():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if lines := offences(text):
            found[name_of(path)] = lines
    assert found == {}


def test_prose_and_names_are_plain_english() -> None:
    words = re.compile(rf"(?<![A-Za-z])({'|'.join(PLAIN_WORDS)})(?![A-Za-z])", re.IGNORECASE)
    ours = [path for path in files_of_ours() if path.suffix in {".py", ".md"} and path.name != "CHANGELOG.md"]
    found = {name_of(path): words.findall(path.read_text(encoding="utf-8")) for path in ours}
    assert {name: f"{hits}: see PLAIN_WORDS" for name, hits in found.items() if hits} == {}


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("--index-url https://" + REGISTRIES[0] + "/simple", True),
        ("see /" + "work/main/README.md", True),
        ("in '/" + "root/.cache'", True),
        ("/var/run/secrets/kubernetes.io/serviceaccount", False),
        ("build/tmp/a and $HOME/work/b", False),
    ],
)
def test_an_offence_is_found_and_nothing_else(line: str, bad: bool) -> None:
    assert bool(offences(line)) is bad


def test_every_target_of_the_makefile_has_a_sentence_that_make_alone_prints() -> None:
    text = makefile()
    targets = re.findall(r"^\.PHONY: (.+)$", text, flags=re.MULTILINE)
    assert targets
    printed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in (name for names in targets for name in names.split()):
        assert re.search(rf"^{target}:.* ## [A-Z].*\.$", text, flags=re.MULTILINE), target
        assert re.search(rf"^  {target} +[A-Z].*\.$", printed, flags=re.MULTILINE), target
    rules = set(re.findall(r"^([a-z0-9-]+):", text, flags=re.MULTILINE))
    assert rules == {name for names in targets for name in names.split()}


def test_help_knows_hyphens_and_the_files_that_the_makefile_includes(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(f"{(ROOT / 'Makefile').read_text(encoding='utf-8')}\ninclude more.mk\n")
    (tmp_path / "more.mk").write_text("##@ More\n\n.PHONY: docker-build\ndocker-build: ## Build an image.\n")
    for file in (ROOT / name for name in re.findall(r"^-?include +(\S+)$", makefile(), flags=re.MULTILINE)):
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"))
    printed = subprocess.run(["make"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert re.search(r"^More\n  docker-build +Build an image\.$", printed, flags=re.MULTILINE)


def test_what_make_test_runs_needs_no_program_that_is_not_there() -> None:
    """kubectl and what Debian has belong to suites of `make verify`."""
    wanted = re.compile(r"\.kubectl\(|programs\.(program|directory)\(|apt-get")
    suites = [path for room in ("unit", "local") for path in (ROOT / "tests" / room).rglob("*.py")]
    assert [name_of(path) for path in suites if path != Path(__file__) and wanted.search(path.read_text())] == []
