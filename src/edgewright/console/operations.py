"""The table of operations: all that the REST API can do, once.

`server` creates the routes from it, `openapi` the description for programs, `hack/reference.py` the page for people.
"""

from __future__ import annotations

from typing import Final

from edgewright.console import (
    about,
    actions,
    flash_log,
    fleet,
    lists,
    object_events,
    objects,
    quarantine,
    rollouts,
    search,
    stream,
)
from edgewright.console.operation import (
    EVENT_STREAM,
    JSON,
    JSON_PATCH,
    LIST,
    MERGE_PATCH,
    OBJECT,
    Answer,
    Operation,
    Parameter,
)

_RESOURCE: Final = Parameter(
    name="resource",
    where="path",
    about="The kind: ours by its plural (flashjobs), any other custom resource by plural and group "
    "(minimarts.charts.example.com).",
)
_NAMESPACE: Final = Parameter(name="namespace", where="path", about="The namespace.")
_NAME: Final = Parameter(name="name", where="path", about="The object's name.")
_IN_NAMESPACE: Final = Parameter(name="namespace", about="Only this namespace; without it, all.")
_LABELS: Final = Parameter(name="labelSelector", about="Only objects with these labels, such as site=a,tier!=b.")
_DRY_RUN: Final = Parameter(
    name="dryRun",
    about="All: the API server checks everything and changes nothing.",
    schema={"type": "string", "enum": ["All"]},
)
_MANAGER: Final = Parameter(
    name="fieldManager",
    about=f"Who owns the fields that are set; default {objects.FIELD_MANAGER}. An application names itself.",
    schema={"type": "string", "maxLength": 128},
)
_FORCE: Final = Parameter(name="force", about="Take over fields that another manager owns.", schema={"type": "boolean"})
_PROPAGATION: Final = Parameter(
    name="propagationPolicy",
    about="What happens to objects that it owns.",
    schema={"type": "string", "enum": ["Foreground", "Background", "Orphan"]},
)
_IF_MATCH: Final = Parameter(
    name="If-Match",
    where="header",
    about="The ETag that was seen last: 412 where the object is another one by now. `*`: it must be there.",
)
_IF_NONE_MATCH: Final = Parameter(
    name="If-None-Match", where="header", about="The ETag that is known: 304 where it is still the same."
)
_IDEMPOTENCY_KEY: Final = Parameter(
    name="Idempotency-Key",
    where="header",
    about="A word of the caller's choice for an object without a name: the same word never creates a second one.",
    schema={"type": "string", "maxLength": 255},
)
_ON_BEHALF_OF: Final = Parameter(
    name=actions.ON_BEHALF_OF,
    where="header",
    about="Whom an application acts for: a remark in the annotation and the Event, which gives nobody any right.",
    schema={"type": "string", "maxLength": actions.MAX_REMARK},
)
_LISTED: Final = (
    _LABELS,
    Parameter(name="fieldSelector", about="Only objects with these fields, such as metadata.name=a."),
    Parameter(
        name="q",
        about="Only objects that have every word of this text, in any case, in their name, namespace, labels, or in a "
        "text that stands directly in spec or status.",
        schema={"type": "string", "maxLength": search.MAX_QUERY},
    ),
    Parameter(
        name="sort",
        about="In this order, with a minus the other way round; without it, by namespace and name.",
        schema={"type": "string", "enum": list(search.SORTS)},
    ),
    Parameter(
        name="limit",
        about=f"Objects per page, {lists.PAGE_SIZE} unless said.",
        schema={"type": "integer", "minimum": 1, "maximum": lists.PAGE_SIZE},
    ),
    Parameter(
        name="continue",
        about="Where the page begins: metadata.continue of the page before, which had the same q and sort.",
    ),
)
_ETAG: Final = {"ETag": "The object's state, for If-Match."}
_PAGE: Final = (Answer(status=200, about="A page of the list.", schema=LIST),)
_ONE: Final = Answer(status=200, about="The object.", schema=OBJECT, headers=_ETAG)
_WRITTEN: Final = ("conflict", "invalid", "precondition-failed")


def _on_objects(where: str, prefix: str, scope: str, path: tuple[Parameter, ...]) -> tuple[Operation, ...]:
    """The operations on one object, and its creation, for kinds with or without a namespace."""
    collection, one = f"{prefix}/{{resource}}", f"{prefix}/{{resource}}/{{name}}"
    at = (*path, _RESOURCE)
    settings = {"scope": scope}
    return (
        Operation(
            name=f"create{where}",
            method="POST",
            path=collection,
            summary="Create an object",
            parameters=(*at, _DRY_RUN, _MANAGER, _IDEMPOTENCY_KEY),
            body={JSON: OBJECT},
            answers=(
                Answer(
                    status=201,
                    about="The new object, or with the same Idempotency-Key the one that was made then.",
                    schema=OBJECT,
                    headers={
                        **_ETAG,
                        "Location": "Where it is served.",
                        "Idempotency-Replayed": "true, where the object was made by an earlier request.",
                    },
                ),
            ),
            problems=("already-exists", "invalid"),
            handler=objects.create_object,
            **settings,  # type: ignore[arg-type]
        ),
        Operation(
            name=f"get{where}",
            method="GET",
            path=one,
            summary="Read an object",
            parameters=(*at, _NAME, _IF_NONE_MATCH),
            answers=(_ONE, Answer(status=304, about="It is still what the caller knows.")),
            handler=objects.get_object,
            **settings,  # type: ignore[arg-type]
        ),
        Operation(
            name=f"apply{where}",
            method="PUT",
            path=one,
            summary="Apply an object: create it, or make these fields so; to repeat it does no harm",
            parameters=(*at, _NAME, _DRY_RUN, _MANAGER, _FORCE, _IF_MATCH),
            body={JSON: OBJECT},
            answers=(_ONE, Answer(status=201, about="The new object.", schema=OBJECT, headers=_ETAG)),
            problems=_WRITTEN,
            handler=objects.apply_object,
            **settings,  # type: ignore[arg-type]
        ),
        Operation(
            name=f"patch{where}",
            method="PATCH",
            path=one,
            summary="Change some fields of an object",
            parameters=(*at, _NAME, _DRY_RUN, _MANAGER, _IF_MATCH),
            body={MERGE_PATCH: "object", JSON_PATCH: "array", JSON: "object"},
            answers=(_ONE,),
            problems=_WRITTEN,
            handler=objects.patch_object,
            **settings,  # type: ignore[arg-type]
        ),
        Operation(
            name=f"delete{where}",
            method="DELETE",
            path=one,
            summary="Delete an object",
            parameters=(*at, _NAME, _DRY_RUN, _PROPAGATION, _IF_MATCH),
            answers=(
                Answer(status=202, about="The object, which goes when its finalizers are done.", schema=OBJECT),
                Answer(status=204, about="It is gone."),
            ),
            problems=("conflict", "precondition-failed"),
            handler=objects.delete_object,
            **settings,  # type: ignore[arg-type]
        ),
        Operation(
            name=f"events{where}",
            method="GET",
            path=f"{one}/events",
            summary=f"The latest Events of an object, the newest first, {object_events.MAX_EVENTS} at most",
            parameters=(*at, _NAME),
            answers=(Answer(status=200, about="The Events.", schema="ObjectEvents"),),
            problems=("expired",),
            handler=object_events.object_events,
            **settings,  # type: ignore[arg-type]
        ),
    )


OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        name="describe",
        method="GET",
        path="/api/v1/openapi.json",
        summary="This API as OpenAPI 3.1, with the schema of every kind that is installed (without a token: of ours)",
        answers=(Answer(status=200, about="The document.", schema="object"),),
        problems=("bad-gateway", "unavailable", "timed-out"),
        handler=about.describe,
        public=True,
    ),
    Operation(
        name="explainProblem",
        method="GET",
        path="/api/v1/problems/{problem}",
        summary="What a sort of problem means, and what can be done about it",
        parameters=(Parameter(name="problem", where="path", about="The last part of a problem's type."),),
        answers=(Answer(status=200, about="The sort of problem.", schema="ProblemSort"),),
        handler=about.explain_problem,
        public=True,
    ),
    Operation(
        name="signIn",
        method="POST",
        path="/api/v1/session",
        summary="Turn the one-time link of `edgewright console --as-me` into a session's cookie",
        body={JSON: "Link"},
        answers=(Answer(status=204, about="The cookie is set.", headers={"Set-Cookie": "The session."}),),
        handler=about.sign_in,
        public=True,
    ),
    Operation(
        name="signOut",
        method="DELETE",
        path="/api/v1/session",
        summary="End the session of a browser",
        answers=(
            Answer(status=204, about="The session is over.", headers={"Set-Cookie": "The cookies go."}),
            Answer(
                status=200,
                about="The session is over here, and can be ended at the provider too.",
                schema="SignedOut",
                headers={"Set-Cookie": "The cookies go."},
            ),
        ),
        handler=about.sign_out,
    ),
    Operation(
        name="whoAmI",
        method="GET",
        path="/api/v1/me",
        summary="Who is calling and, for one kind, what the caller may do",
        parameters=(
            Parameter(name="of", about="The kind whose rights are asked for."),
            Parameter(
                name="subresource",
                about="The rights on this part of the kind's objects, such as status, and not on the objects.",
                schema={"type": "string", "maxLength": 63},
            ),
            Parameter(name="namespace", about="Where; without it, everywhere."),
        ),
        answers=(Answer(status=200, about="The caller.", schema="Me"),),
        handler=about.who_am_i,
    ),
    Operation(
        name="listKinds",
        method="GET",
        path="/api/v1/kinds",
        summary="Every kind that can be used: ours, and each custom resource that is installed",
        answers=(Answer(status=200, about="The kinds.", schema="KindEntries"),),
        handler=about.list_kinds,
    ),
    Operation(
        name="describeKind",
        method="GET",
        path="/api/v1/kinds/{kind}/schema",
        summary="One kind with its schema, for who makes a form of it",
        parameters=(Parameter(name="kind", where="path", about="The kind, as it is named in paths."),),
        answers=(Answer(status=200, about="The kind.", schema="KindSchema"),),
        handler=about.describe_kind,
    ),
    Operation(
        name="fleet",
        method="GET",
        path="/api/v1/fleet",
        summary="How many devices stand where, and which versions they run; by a label where one is named",
        parameters=(
            Parameter(name="groupBy", about="A label, such as site.", schema={"type": "string", "maxLength": 317}),
            Parameter(
                name="cells",
                about=f"true: each device by its name, too, where there are {fleet.MAX_CELLS} at most.",
                schema={"type": "boolean"},
            ),
            _LABELS,
        ),
        answers=(Answer(status=200, about="The counts.", schema="FleetSummary"),),
        problems=("expired",),
        handler=fleet.fleet,
    ),
    Operation(
        name="switchFleet",
        method="POST",
        path="/api/v1/fleet/{action}",
        summary="Freeze the fleet, so that no device is started any more, or end that; to repeat it does no harm",
        parameters=(
            Parameter(
                name="action",
                where="path",
                about="What to do.",
                schema={"type": "string", "enum": list(fleet.SWITCHES)},
            ),
            _ON_BEHALF_OF,
        ),
        body={JSON: "ActionRequest"},
        answers=(Answer(status=202, about="The Fleet as it is now.", schema="object", headers=_ETAG),),
        problems=("conflict", "invalid"),
        handler=fleet.switch,
    ),
    Operation(
        name="deviceHistory",
        method="GET",
        path="/api/v1/devices/{name}/history",
        summary="What came of every job that is remembered on a device, the latest first",
        parameters=(_NAME,),
        answers=(Answer(status=200, about="The flashes.", schema="DeviceHistory"),),
        handler=fleet.history,
    ),
    Operation(
        name="deviceWhy",
        method="GET",
        path="/api/v1/devices/{name}/why",
        summary="Why a device is not updated, in one sentence, and what would change that",
        parameters=(_NAME, _IN_NAMESPACE),
        answers=(Answer(status=200, about="The sentence.", schema="Why"),),
        handler=fleet.explain,
    ),
    Operation(
        name="deviceLogs",
        method="GET",
        path="/api/v1/devices/{name}/logs",
        summary="The last lines of the log of a device's flash: of the one under way, or of the latest if it failed",
        parameters=(
            _NAME,
            Parameter(
                name="lines",
                about=f"At most so many lines, {flash_log.DEFAULT_LINES} unless said.",
                schema={"type": "integer", "minimum": 1, "maximum": flash_log.MAX_LINES},
            ),
        ),
        answers=(Answer(status=200, about="The lines.", schema="FlashLog"),),
        handler=flash_log.flash_log,
    ),
    Operation(
        name="releaseDevice",
        method="POST",
        path="/api/v1/devices/{name}/release",
        summary="End the quarantine of a device, so that rollouts try it again; to repeat it does no harm",
        parameters=(_NAME, _ON_BEHALF_OF),
        body={JSON: "ActionRequest"},
        answers=(Answer(status=202, about="The device as it is now.", schema="object", headers=_ETAG),),
        problems=("conflict", "invalid"),
        handler=quarantine.release,
    ),
    Operation(
        name="planRollout",
        method="POST",
        path="/api/v1/namespaces/{namespace}/rollouts/plan",
        summary="What a rollout would do: its batches, and who is left out and why; it changes nothing",
        parameters=(_NAMESPACE,),
        body={JSON: "PlanRequest"},
        answers=(Answer(status=200, about="The plan.", schema="RolloutPlan"),),
        problems=("expired", "invalid"),
        handler=rollouts.make_plan,
    ),
    Operation(
        name="recallRollout",
        method="POST",
        path="/api/v1/namespaces/{namespace}/rollouts/{name}/recall",
        summary="Take the devices that a rollout changed back to what each ran before, by a rollout of its own",
        parameters=(_NAMESPACE, _NAME, _ON_BEHALF_OF),
        body={JSON: "ActionRequest"},
        answers=(Answer(status=202, about="The rollout that takes them back.", schema="object", headers=_ETAG),),
        problems=("conflict", "invalid"),
        handler=rollouts.recall,
    ),
    Operation(
        name="undoRollout",
        method="POST",
        path="/api/v1/namespaces/{namespace}/rollouts/{name}/undo",
        summary="Bring the firmware that came before to the same devices, by a rollout of its own",
        parameters=(_NAMESPACE, _NAME, _DRY_RUN, _ON_BEHALF_OF),
        body={JSON: "ActionRequest"},
        answers=(Answer(status=202, about="The rollout that brings it.", schema="object", headers=_ETAG),),
        problems=("conflict", "invalid"),
        handler=rollouts.undo,
    ),
    Operation(
        name="actOnRollout",
        method="POST",
        path="/api/v1/namespaces/{namespace}/rollouts/{name}/{action}",
        summary="Pause, resume, approve, abort or retry a rollout; to repeat it does no harm",
        parameters=(
            _NAMESPACE,
            _NAME,
            Parameter(
                name="action",
                where="path",
                about="What to do.",
                schema={"type": "string", "enum": ["pause", "resume", "approve", "abort", "retry"]},
            ),
            _ON_BEHALF_OF,
        ),
        body={JSON: "ActionRequest"},
        answers=(Answer(status=202, about="The rollout as it is now.", schema="object", headers=_ETAG),),
        problems=("conflict", "invalid"),
        handler=rollouts.act,
    ),
    Operation(
        name="watch",
        method="GET",
        path="/api/v1/stream",
        summary="Follow a kind as server-sent events: the present state, `synced`, then every change",
        parameters=(
            Parameter(name="of", about="The kind, as in paths.", required=True),
            _IN_NAMESPACE,
            Parameter(name="name", about="Only the object of this name."),
            _LABELS,
            Parameter(
                name="Last-Event-ID",
                where="header",
                about="The id of the last event that was seen: the stream goes on after it, or begins with `reset`.",
            ),
        ),
        answers=(
            Answer(
                status=200,
                about="Events added, modified, deleted (the object), synced, reset (forget all), problem.",
                schema="string",
                media=EVENT_STREAM,
            ),
        ),
        handler=stream.watch_objects,
        endless=True,
    ),
    Operation(
        name="list",
        method="GET",
        path="/api/v1/{resource}",
        summary="List objects, of one namespace or of all that the caller may see",
        parameters=(_RESOURCE, _IN_NAMESPACE, *_LISTED),
        answers=_PAGE,
        problems=("expired",),
        handler=lists.list_objects,
        scope="any",
    ),
    Operation(
        name="listInNamespace",
        method="GET",
        path="/api/v1/namespaces/{namespace}/{resource}",
        summary="List the objects of a namespace",
        parameters=(_NAMESPACE, _RESOURCE, *_LISTED),
        answers=_PAGE,
        problems=("expired",),
        handler=lists.list_objects,
        scope="namespaced",
    ),
    *_on_objects("InNamespace", "/api/v1/namespaces/{namespace}", "namespaced", (_NAMESPACE,)),
    *_on_objects("", "/api/v1", "cluster", ()),
)
"""The table. Paths without a kind come first: they win over those with one."""
