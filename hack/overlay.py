"""Writes a kustomize overlay over a folder of config/: an image, the capabilities and the arguments of an installation.

The targets of deploy.mk run it with any Python 3.11 and render what it wrote to build/. It needs nothing of Edgewright
and changes nothing in config/, so that an installation never leaves a tracked file changed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

CONFIG: Final = Path(__file__).resolve().parents[1] / "config"
_DEPLOYMENT: Final = {"kind": "Deployment", "name": "edgewright-controller-manager"}
_DEPLOYED: Final = ("default", "namespaced")
"""The folders of config/ that have the operator in them."""
_NO_SECRETS: Final = "--no-check-secrets"
_ARGUMENTS: Final = "/spec/template/spec/containers/0/args/-"


def overlay(
    base: Path,
    *,
    directory: Path,
    image: str = "",
    controllers: str = "",
    arguments: Sequence[str] = (),
    replicas: int | None = None,
) -> dict[str, Any]:
    """The overlay; ValueError says which capability is unknown, or which image is no image."""
    known = sorted(path.name for path in (CONFIG / "without").iterdir())
    wanted = [name.strip() for name in controllers.split(",") if name.strip()]
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"CONTROLLERS: {unknown[0]!r} is not one of {', '.join(known)}")
    left_out = [name for name in known if wanted and name not in wanted]
    content: dict[str, Any] = {"resources": [_relative(base, directory)]}
    components = [CONFIG / "without" / name for name in left_out]
    if _NO_SECRETS in arguments and "flashjob" not in left_out:
        components.insert(0, CONFIG / "no-secret-check")  # it takes the right away too
        arguments = [each for each in arguments if each != _NO_SECRETS]
    if components:
        content["components"] = [_relative(each, directory) for each in components]
    if image:
        content["images"] = [{"name": "controller", **_parts(image)}]
    added = [f"--controllers={','.join(wanted)}"] if wanted else []
    if image and not any(each.startswith("--flasher-image") for each in arguments):
        added.append(f"--flasher-image={image}")  # the operator's image is its flasher's too
    if base.name not in _DEPLOYED:
        return content
    if replicas is not None:
        content["replicas"] = [{"name": _DEPLOYMENT["name"], "count": replicas}]
    if added or arguments:
        patch = [{"op": "add", "path": _ARGUMENTS, "value": each} for each in (*added, *arguments)]
        content["patches"] = [{"target": _DEPLOYMENT, "patch": json.dumps(patch)}]
    return content


def _relative(path: Path, directory: Path) -> str:
    return os.path.relpath(path.resolve(), directory.resolve())


def _parts(image: str) -> dict[str, str]:
    """An image as kustomize wants it."""
    if any(mark.isspace() for mark in image) or image.startswith(("-", ":", "/")) or image.endswith((":", "/", "@")):
        raise ValueError(f"IMG: {image!r} is not the name of an image, such as registry.example/edgewright:0.1.0")
    if "@" in image:
        name, _, digest = image.partition("@")
        return {"newName": name, "digest": digest}
    folder, slash, last = image.rpartition("/")
    name, colon, tag = last.partition(":")
    return {"newName": f"{folder}{slash}{name}", "newTag": tag if colon else "latest"}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: writes DIRECTORY/kustomization.yaml."""
    parser = argparse.ArgumentParser(description="Write a kustomize overlay.")
    parser.add_argument("base", type=Path, help="what it is over, as config/default")
    parser.add_argument("directory", type=Path, help="where it is written")
    parser.add_argument("--image", default="", help="the image of the operator")
    parser.add_argument("--controllers", default="", help="the capabilities, with commas; default: all")
    parser.add_argument("--arguments", default="", help="further arguments of the operator, as a shell reads them")
    parser.add_argument("--replicas", type=int, help="how many operators run; one of them leads")
    options = parser.parse_args(arguments)
    try:
        content = overlay(
            options.base,
            directory=options.directory,
            image=options.image,
            controllers=options.controllers,
            arguments=shlex.split(options.arguments),
            replicas=options.replicas,
        )
    except ValueError as error:
        print(f"make: {error}", file=sys.stderr)
        return 2
    options.directory.mkdir(parents=True, exist_ok=True)
    (options.directory / "kustomization.yaml").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
