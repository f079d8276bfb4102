"""Exchanges about the volumes of Pods."""

from __future__ import annotations

from typing import Any

from tests.unit.local.builtin.exchanges import Exchange
from tests.unit.local.builtin.pod_exchanges import new


def volume(**source: Any) -> Exchange:
    return new(volumes=[{"name": "v", **source}])


VOLUMES: dict[str, Exchange] = {
    "of no source": volume(),
    "empty": volume(emptyDir={}),
    "empty in memory": volume(emptyDir={"medium": "Memory", "sizeLimit": "1024Mi"}),
    "empty below zero": volume(emptyDir={"sizeLimit": "-1"}),
    "of two sources": volume(emptyDir={}, hostPath={"path": "/x"}),
    "of a host's path": volume(hostPath={"path": "/x"}),
    "of no host's path": volume(hostPath={"path": ""}),
    "of a bad host's path": volume(hostPath={"path": "/a/../b", "type": "x"}),
    "of a secret": volume(
        secret={"secretName": "s", "items": [{"key": "k", "path": "p", "mode": 256}], "optional": False}
    ),
    "of a bad secret": volume(
        secret={
            "defaultMode": 9999,
            "items": [
                {"key": "", "path": ""},
                {"key": "k", "path": "../x"},
                {"key": "k", "path": "/x"},
                {"key": "k", "path": "..x", "mode": -1},
            ],
        }
    ),
    "of a config map": volume(configMap={"name": "c"}),
    "of no config map": volume(configMap={}),
    "of fields": volume(
        downwardAPI={
            "items": [
                {"path": "p", "fieldRef": {"fieldPath": "metadata.labels"}},
                {"path": "q", "resourceFieldRef": {"containerName": "a", "resource": "limits.memory"}},
            ]
        }
    ),
    "of bad fields": volume(
        downwardAPI={
            "items": [
                {"path": ""},
                {"path": "a", "fieldRef": {"fieldPath": "status.podIP"}},
                {"path": "b", "resourceFieldRef": {"resource": "limits.cpu"}},
                {
                    "path": "c",
                    "fieldRef": {"fieldPath": "metadata.name"},
                    "resourceFieldRef": {"containerName": "a", "resource": "limits.cpu"},
                },
            ]
        }
    ),
    "of many sources": volume(
        projected={
            "sources": [
                {"secret": {"name": "s"}},
                {"configMap": {"name": "c"}},
                {"downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                {"serviceAccountToken": {"path": "t"}},
            ]
        }
    ),
    "of no sources": volume(projected={}),
    "of many bad sources": volume(
        projected={
            "sources": [
                {"secret": {"items": [{"key": "k", "path": "p"}]}, "configMap": {"items": [{"key": "k", "path": "p"}]}},
                {"serviceAccountToken": {"path": "", "expirationSeconds": 5}},
            ]
        }
    ),
    "of a claim": volume(persistentVolumeClaim={"claimName": "c"}),
    "of no claim": volume(persistentVolumeClaim={"claimName": ""}),
    "of NFS": volume(nfs={"server": "s", "path": "/p"}),
    "of bad NFS": volume(nfs={"server": "", "path": "p"}),
    "of a token for too long": volume(
        projected={"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 2**32 + 1}}]}
    ),
    "of a vendor": volume(csi={"driver": "x.example.com"}),
    "with bad names": new(volumes=[{"name": "A"}, {"name": ""}, {"name": "v"}, {"name": "v"}]),
}
