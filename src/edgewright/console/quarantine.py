"""The end of a device's quarantine over HTTP: the same change of its status as `edgewright devices release` makes.

It is asked for with the caller's rights, on the Device (where the annotation says who and why) and on its status. Who
lacks either is refused before anything is changed.
"""

from __future__ import annotations

from typing import Final

import msgspec
from aiohttp import web

from edgewright.api.device import Device, release_of
from edgewright.console.actions import asked_for, request_of, tell, try_to_change
from edgewright.console.call import Call, answer, etag
from edgewright.console.problems import Refusal
from edgewright.console.shared_cache import note_write
from edgewright.runtime.errors import Conflict
from edgewright.runtime.objects import Key, RawObject

_TRIES: Final = 5


async def release(call: Call) -> web.Response:
    """Ends the quarantine; a device that is in none is answered as it is."""
    key = Key("", call.part("name"))
    asked = await asked_for(call, "release", await request_of(call))
    devices = call.client.raw(Device.kind)
    there = await devices.get(key)
    for part in (None, "status"):  # nothing by halves; and who may not is told so also where nothing is to be done
        await try_to_change(call, Device.kind, key, part)
    if release_of(there) is not None:
        there = await devices.patch(key, {"metadata": {"annotations": asked.annotation}})
        there = await _released(call, there)
        note_write(call, Device.kind, there["metadata"]["resourceVersion"])
        await tell(call, msgspec.convert(there, Device), asked)
    there["metadata"].pop("managedFields", None)
    return answer(there, status=202, headers=etag(there))


async def _released(call: Call, device: RawObject) -> RawObject:
    """Patches the status, whatever the operator writes meanwhile."""
    devices, key = call.client.raw(Device.kind), Key("", device["metadata"]["name"])
    for _ in range(_TRIES):
        patch = release_of(device)
        if patch is None:  # another one was faster
            return device
        version = device["metadata"]["resourceVersion"]
        try:
            return await devices.patch(key, patch, resource_version=version, subresource="status")
        except Conflict:
            device = await devices.get(key)
    raise Refusal("conflict", "others keep changing the device: try again")
