"""Podman's REST API from memory, on a Unix socket: enough of it for the client and the agent, with failures on order.

Unit tests use it where podman itself is not there; the suite in tests/edge runs the same code on the real one.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from aiohttp import web

BASE = "/v4.3.0/libpod"


class FakePodman:
    """One podman, while the context lasts."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ewp-")
        self.socket = Path(self._folder.name) / "p.sock"
        self.pods: dict[str, dict[str, Any]] = {}
        self.secrets: dict[str, bytes] = {}
        self.volumes: dict[str, dict[str, Any]] = {}
        self.images: set[str] = set()
        self.refuse: dict[str, str] = {}
        """Podman's text by what is asked for: `play`, `start`, `stop`, `remove` …, or by `play NAME`."""
        self.container_errors: list[str] = []
        self.raw: dict[str, tuple[int, bytes]] = {}
        """An answer of the test's own, by path."""
        self.asked: list[str] = []
        self.lines: dict[str, list[tuple[str, str]]] = {}
        """Time and text of what containers print, by container."""
        self.since: list[str] = []
        self.commands: dict[str, tuple[int, bytes]] = {}
        """The exit code and the output of whatever is run in a container, by container."""
        self.executed: list[tuple[str, list[str]]] = []
        self.headers: dict[str, str] = {}
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        self._folder.cleanup()

    async def start(self) -> None:
        """Listens."""
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", f"{BASE}/{{path:.*}}", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=1)
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self.socket)).start()

    async def stop(self) -> None:
        """Is unavailable from now on."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self.socket.unlink(missing_ok=True)

    def add_pod(self, name: str, *, status: str = "Running", labels: dict[str, str] | None = None) -> None:
        """A pod that somebody made."""
        self.pods[name] = {
            "Id": f"id-{name}",
            "Name": name,
            "Status": status,
            "InfraId": "infra",
            "Labels": labels,
            "Containers": [{"Id": "infra", "Names": "infra", "Status": "running"}],
        }

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        self.asked.append(f"{request.method} {path}")
        self.headers = dict(request.headers)
        body = await request.read()
        if path in self.raw:
            status, content = self.raw[path]
            return web.Response(status=status, body=content)
        match path.split("/"):
            case "containers", name, "logs" if name in self.lines:
                return await self._logs(request, name)
            case "exec", number, "start":
                return web.Response(body=_framed(self.commands[self.executed[int(number)][0]][1]))
        try:
            return self._answer(request, path.split("/"), body)
        except KeyError as error:
            return _failure(404, f"no such thing: {error}")
        except Refusal as refusal:
            return _failure(500, str(refusal))

    def _answer(  # noqa: C901 - a table of paths
        self, request: web.Request, parts: list[str], body: bytes
    ) -> web.Response:
        match request.method, *parts:
            case "GET", "version":
                return web.json_response({"Version": "4.3.1", "ApiVersion": "1.41"})
            case "POST", "play", "kube":
                return self._play(body.decode(), start=request.query.get("start") == "true")
            case "GET", "pods", "json":
                return web.json_response(self._listed(self.pods, request) or None)
            case "GET", "pods", name, "json":
                return web.json_response(self.pods[name])
            case "POST", "pods", name, ("start" | "stop") as verb:
                self._demand(verb, name)
                self.pods[name]["Status"] = "Running" if verb == "start" else "Exited"
                return web.json_response({"Errs": None, "Id": name})
            case "DELETE", "pods", name:
                self._demand("remove", name)
                del self.pods[name]
                return web.json_response({"Err": None, "Id": name})
            case "GET", "containers", name, "json":
                return web.json_response(self._container(name))
            case "POST", "containers", name, "exec":
                self._container(name)
                self.executed.append((name, json.loads(body)["Cmd"]))
                return web.json_response({"Id": str(len(self.executed) - 1)}, status=201)
            case "GET", "exec", number, "json":
                code = self.commands[self.executed[int(number)][0]][0]
                return web.json_response({"ID": number, "ExitCode": code, "Running": False})
            case "GET", "images", *name, "exists":
                if "/".join(name) not in self.images:
                    raise KeyError("image")
                return web.Response(status=204)
            case "POST", "images", "pull":
                self._demand("pull")
                return web.Response(text='{"stream":"pulling"}\n{"id":"abc","images":["abc"]}\n')
            case "POST", "images", "load":
                self.images.add(f"loaded-{len(body)}")
                return web.json_response({"Names": [f"loaded-{len(body)}"]})
            case "GET", "secrets", "json":
                return web.json_response([{"ID": name, "Spec": {"Name": name}} for name in self.secrets])
            case "POST", "secrets", "create":
                if request.query["name"] in self.secrets:
                    raise Refusal("secret name in use")
                self.secrets[request.query["name"]] = body
                return web.json_response({"ID": "1"})
            case "DELETE", "secrets", name:
                del self.secrets[name]
                return web.Response(status=204)
            case "GET", "volumes", "json":
                return web.json_response(self._listed(self.volumes, request))
            case "POST", "volumes", "create":
                asked = json.loads(body)
                self.volumes[asked["Name"]] = {"Name": asked["Name"], "Mountpoint": "/m", "Labels": asked["Label"]}
                return web.json_response(self.volumes[asked["Name"]], status=201)
            case "DELETE", "volumes", name:
                del self.volumes[name]
                return web.Response(status=204)
        raise KeyError(request.path)

    def _play(self, text: str, *, start: bool) -> web.Response:
        made = []
        for document in yaml.safe_load_all(text):
            if document["kind"] != "Pod":
                continue
            name = document["metadata"]["name"]
            self._demand("play", name)
            if name in self.pods:
                raise Refusal(f'name "{name}" is in use: pod already exists')
            self.add_pod(name, status="Running" if start else "Created", labels=document["metadata"].get("labels"))
            for each in document["spec"]["containers"]:
                container = {"Id": each["name"], "Names": f"{name}-{each['name']}", "Status": "running"}
                self.pods[name]["Containers"].append(container)
            made.append({"ID": name, "Containers": [], "ContainerErrors": self.container_errors or None})
        return web.json_response({"Pods": made})

    async def _logs(self, request: web.Request, name: str) -> web.StreamResponse:
        """What a container prints, until it ends: until its lines are taken away."""
        if request.query.get("follow") == "false":
            last = self.lines[name][-int(request.query["tail"]) :]
            return web.Response(body=b"".join(_framed(f"{text}\n".encode()) for _, text in last))
        self.since.append(request.query.get("since", ""))
        response = web.StreamResponse()
        await response.prepare(request)
        sent = 0
        while (lines := self.lines.get(name)) is not None:
            for time, text in lines[sent:]:
                frame = f"{time} {text}\n".encode()
                await response.write(b"\x01\0\0\0" + len(frame).to_bytes(4, "big") + frame)
            sent = len(lines)
            await asyncio.sleep(0.01)
        return response

    def _container(self, name: str) -> dict[str, Any]:
        for pod in self.pods.values():
            for each in pod["Containers"]:
                if each["Names"] == name:
                    state = {"Status": each["Status"], "ExitCode": each.get("ExitCode", 0)}
                    return {"Id": each["Id"], "Name": name, "RestartCount": each.get("RestartCount", 0), "State": state}
        raise KeyError(name)

    def _listed(self, things: dict[str, dict[str, Any]], request: web.Request) -> list[dict[str, Any]]:
        filters = json.loads(request.query.get("filters", "{}"))
        found = list(things.values())
        for label in filters.get("label", []):
            name, _, value = label.partition("=")
            found = [each for each in found if (each["Labels"] or {}).get(name) == value]
        return found

    def _demand(self, verb: str, name: str = "") -> None:
        text = self.refuse.get(f"{verb} {name}") or self.refuse.get(verb)
        if name and verb != "play" and name not in self.pods:
            raise KeyError(name)
        if text:
            raise Refusal(text)


class Refusal(Exception):
    """What the fake podman will not do."""


def _framed(text: bytes) -> bytes:
    return b"\x01\0\0\0" + len(text).to_bytes(4, "big") + text


def _failure(status: int, text: str) -> web.Response:
    return web.json_response({"cause": text, "message": text, "response": status}, status=status)
