"""The benchmark's peer on kubernetes_asyncio: a list, a watch and a queue with workers, as its users write them.

Called by the driver on a namespace that already holds the objects; each gets one merge patch on its status. It ends
when the last patch is answered, and prints one line of JSON. It does not recover from a lost watch: that library
leaves it to the user.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from kubernetes_asyncio import client, config, watch

from bench.peers.measurement import GROUP, PLURAL, VERSION, Measurement, parse_arguments, wanted_status


async def follow(api: Any, namespace: str, queue: asyncio.Queue[Any]) -> None:
    """Puts every object into the queue, first those that the list shows, then those that change."""
    listed = await api.list_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL)
    for item in listed["items"]:
        queue.put_nowait(item)
    async with watch.Watch() as stream:
        events = stream.stream(
            api.list_namespaced_custom_object,
            GROUP,
            VERSION,
            namespace,
            PLURAL,
            resource_version=listed["metadata"]["resourceVersion"],
        )
        async for event in events:
            if event["type"] in {"ADDED", "MODIFIED"}:
                queue.put_nowait(event["object"])


async def reconcile(api: Any, namespace: str, queue: asyncio.Queue[Any], measurement: Measurement) -> None:
    """One worker: writes the status of each object that does not have it yet."""
    while True:
        item = await queue.get()
        status = wanted_status(item["metadata"]["generation"])
        if item.get("status") == status:
            continue
        measurement.requests += 1
        await api.patch_namespaced_custom_object_status(
            GROUP,
            VERSION,
            namespace,
            PLURAL,
            item["metadata"]["name"],
            {"status": status},
            _content_type="application/merge-patch+json",
        )
        measurement.written(item["metadata"]["name"])


async def run(args: argparse.Namespace) -> str:
    await config.load_kube_config(config_file=args.kubeconfig)
    async with client.ApiClient() as connection:
        api = client.CustomObjectsApi(connection)
        queue: asyncio.Queue[Any] = asyncio.Queue()
        measurement = Measurement(args.objects)
        tasks = [asyncio.create_task(follow(api, args.namespace, queue))]
        tasks += [asyncio.create_task(reconcile(api, args.namespace, queue, measurement)) for _ in range(args.workers)]
        finished = asyncio.create_task(measurement.finished.wait())
        await asyncio.wait([finished, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()  # a task that ends by itself has failed: say why
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return measurement.report()


if __name__ == "__main__":
    print(asyncio.run(run(parse_arguments(__doc__))))
