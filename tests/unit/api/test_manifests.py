"""The YAML files: they are what the structs say, readable, and only files of ours are touched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from edgewright.api import CUSTOM_KINDS, custom_resource_definitions
from edgewright.api.manifests import GENERATED, differences, main, manifests, render, write

BASES = Path(__file__).parents[3] / "config" / "crd" / "bases"
FLASHJOBS = "application.flashjob.nbfc.io_flashjobs.yaml"
FILES = [
    FLASHJOBS,
    "edgewright.dev_devices.yaml",
    "edgewright.dev_firmwarerollouts.yaml",
    "edgewright.dev_fleets.yaml",
    "flux-framework.org_fluxes.yaml",
    "flux-framework.org_fluxsetups.yaml",
    "flux-framework.org_miniclusters.yaml",
    *(
        f"management.project-flotta.io_{plural}.yaml"
        for plural in (
            "edgedevices",
            "edgedeployments",
            "edgeworkloads",
            "edgedevicegroups",
            "edgedevicesets",
            "edgedevicesignedrequest",
        )
    ),
    "edgewright.dev_edgeheartbeatshards.yaml",
    "edgewright.dev_edgeworkloadrevisions.yaml",
    "edgewright.dev_edgelogrequests.yaml",
    "edgewright.dev_edgeexecrequests.yaml",
]


def test_the_files_in_the_repository_are_what_the_structs_say() -> None:
    assert differences(BASES) == []


def test_a_file_is_named_by_group_and_plural_and_says_that_it_is_generated() -> None:
    assert list(manifests()) == FILES
    assert manifests()[FLASHJOBS].splitlines()[:2] == [
        GENERATED,
        "# After a change of a kind: make manifests (python -m edgewright.api.manifests config/crd/bases)",
    ]


def test_what_is_written_reads_back_as_the_same_documents() -> None:
    documents = [yaml.safe_load(text) for text in manifests().values()]
    assert documents == custom_resource_definitions(CUSTOM_KINDS)


def test_the_yaml_is_in_block_style_without_aliases_and_in_order() -> None:
    shared = ["a"]
    text = render({"z": shared, "a": shared, "text": "two\nlines", "empty": {}})
    assert text == "z:\n  - a\na:\n  - a\ntext: |-\n  two\n  lines\nempty: {}\n"


def test_writing_twice_changes_nothing_the_second_time(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "bases"
    assert [path.name for path in write(directory)] == FILES
    assert write(directory) == []
    assert differences(directory) == []


def test_a_generated_file_whose_kind_is_gone_is_removed_and_others_stay(tmp_path: Path) -> None:
    write(tmp_path)
    gone, own = tmp_path / "old.yaml", tmp_path / "kustomization.yaml"
    gone.write_text(f"{GENERATED}\nkind: Old\n")
    own.write_text("resources: []\n")
    assert differences(tmp_path) == [f"{gone} belongs to no kind any more"]
    assert write(tmp_path) == [gone]
    assert own.exists()
    assert not gone.exists()


def test_check_says_which_file_differs_and_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--check"]) == 1
    assert f"{tmp_path / FLASHJOBS} is missing" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    write(tmp_path)
    (tmp_path / FLASHJOBS).write_text("edited: by hand\n")
    assert main([str(tmp_path), "--check"]) == 1
    assert capsys.readouterr().err == f"{tmp_path / FLASHJOBS} differs from the structs\nrun: make manifests\n"


def test_the_command_writes_and_names_what_it_wrote(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "edgewright.api.manifests", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "".join(f"{tmp_path / name}\n" for name in FILES)
    assert done.stderr == ""
    assert main([str(tmp_path), "--check"]) == 0
    assert main([str(tmp_path)]) == 0
