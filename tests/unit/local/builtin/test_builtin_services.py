"""Addresses and node ports of Services: nobody gets what another has, whatever happens in between."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from edgewright.local.builtin.allocation import Addresses, Ports, Taken, by_lot
from edgewright.local.builtin.service import SELECTABLE, ServiceRules
from edgewright.local.errors import Refusal
from edgewright.local.served import Write
from edgewright.runtime.objects import RawObject

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def write(stored: Iterable[RawObject] = (), *, now: datetime = NOW, dry_run: bool = False) -> Write:
    listed = list(stored)
    return Write(
        verb="create", now=now, dry_run=dry_run, every=lambda resource: listed if resource == "services" else ()
    )


def rules(network: str = "10.9.0.0/24", ports: range = range(30000, 30100)) -> ServiceRules:
    return ServiceRules(service_range=network, node_ports=ports)


def body(name: str = "s", *ports: RawObject, **spec: Any) -> RawObject:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "place"},
        "spec": {"ports": list(ports) or [{"port": 80}], **spec},
    }


def made(using: ServiceRules, how: Write, name: str = "s", *ports: RawObject, **spec: Any) -> RawObject:
    obj, _ = using.decode(body(name, *ports, **spec))
    using.default(obj)
    using.prepare_create(obj, how)
    return obj


def test_services_made_at_once_get_different_addresses() -> None:
    using = rules()
    given = {made(using, write(), f"s{number}")["spec"]["clusterIP"] for number in range(50)}
    assert len(given) == 50


def test_an_address_that_was_asked_for_is_held_while_its_write_is_under_way() -> None:
    using = rules()
    made(using, write(), "a", clusterIP="10.9.0.5")
    with pytest.raises(Refusal, match=r"failed to allocate IP 10\.9\.0\.5: provided IP is already allocated"):
        made(using, write(), "b", clusterIP="10.9.0.5")


def test_what_was_released_can_be_had_again() -> None:
    using = rules()
    first = made(using, write(), "a", {"port": 1, "nodePort": 30050}, clusterIP="10.9.0.5", type="NodePort")
    using.release(first)
    again = made(using, write(), "b", {"port": 1, "nodePort": 30050}, clusterIP="10.9.0.5", type="NodePort")
    assert again["spec"]["clusterIPs"] == ["10.9.0.5"]


def test_only_its_owner_releases_what_is_held() -> None:
    using = rules()
    made(using, write(), "a", clusterIP="10.9.0.5")
    stranger, _ = using.decode(body("b", clusterIPs=["10.9.0.5"]))
    using.release(stranger)
    with pytest.raises(Refusal, match="already allocated"):
        made(using, write(), "b", clusterIP="10.9.0.5")


def test_a_trial_holds_nothing() -> None:
    using = rules()
    trial = made(using, write(dry_run=True), "a", clusterIP="10.9.0.5", type="NodePort")
    assert trial["spec"]["ports"][0]["nodePort"]
    assert made(using, write(), "b", clusterIP="10.9.0.5")


def test_what_is_stored_is_taken_and_no_longer_held() -> None:
    using = rules()
    stored = made(using, write(), "a", clusterIP="10.9.0.5")
    with pytest.raises(Refusal, match="already allocated"):
        made(using, write([stored]), "b", clusterIP="10.9.0.5")
    assert made(using, write(), "b", clusterIP="10.9.0.5")  # it was seen stored, and is not there any more


def test_what_was_never_stored_is_free_after_a_while() -> None:
    using = rules()
    made(using, write(), "a", clusterIP="10.9.0.5")
    assert made(using, write(now=NOW + timedelta(minutes=2)), "b", clusterIP="10.9.0.5")


def test_a_full_range_is_said_to_be_full() -> None:
    using = rules("10.9.0.0/30", range(30000, 30001))
    assert {made(using, write(), name)["spec"]["clusterIP"] for name in "ab"} == {"10.9.0.1", "10.9.0.2"}
    with pytest.raises(Refusal, match='failed to allocate a serviceIP for Service "c": range is full') as refused:
        made(using, write(), "c")
    assert refused.value.code == 500
    made(using, write(), "d", clusterIP="None", type="NodePort")
    with pytest.raises(Refusal, match="failed to allocate a nodePort: range is full"):
        made(using, write(), "e", clusterIP="None", type="NodePort")


def test_the_whole_range_is_given_out_before_it_is_full() -> None:
    addresses, used = Addresses("10.9.0.0/26"), set[str]()
    for _ in range(62):
        used.add(addresses.choose(used))
    assert len(used) == 62
    with pytest.raises(Taken):
        addresses.choose(used)
    used.remove("10.9.0.1")
    assert addresses.choose(used) == "10.9.0.1"


def test_giving_out_begins_anywhere_so_that_two_servers_on_one_machine_do_not_meet() -> None:
    assert Addresses("10.9.0.0/16", draw=max).choose(set()) == "10.9.255.254"
    assert Ports(range(30000, 32768), draw=max).choose(set()) == 32767
    addresses, used = Addresses("10.9.0.0/26", draw=lambda band: band[40]), set[str]()
    for _ in range(62):
        used.add(addresses.choose(used))
    assert len(used) == 62, "all of them, wherever it began"
    first = {served_by(ServiceRules(service_range="10.9.0.0/16", node_ports=range(30000, 32768))) for _ in range(8)}
    assert len(first) > 1


def served_by(rules: ServiceRules) -> tuple[str, int]:
    spec = made(rules, write(), "a", type="NodePort")["spec"]
    return spec["clusterIP"], spec["ports"][0]["nodePort"]


def test_low_addresses_and_ports_are_left_to_those_who_ask_for_them() -> None:
    assert Addresses("10.9.0.0/16").choose(set()) == "10.9.1.1"
    assert Ports(range(30000, 32768)).choose(set()) == 30086


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("10.8.0.1", "the provided network does not match the current range"),
        ("10.9.0.0", r"is not in the valid range\. The range of valid IPs is 10\.9\.0\.0/24"),
        ("10.9.0.255", r"is not in the valid range\. The range of valid IPs is 10\.9\.0\.0/24"),
    ],
)
def test_addresses_that_are_not_for_services_are_refused(wanted: str, why: str) -> None:
    with pytest.raises(Taken, match=why):
        Addresses("10.9.0.0/24").check(wanted, set())


def test_a_range_of_ipv6_makes_services_of_ipv6() -> None:
    obj = made(rules("fd00::/112"), write())
    assert obj["spec"]["ipFamilies"] == ["IPv6"]
    assert ipaddress.ip_address(obj["spec"]["clusterIP"]) in ipaddress.ip_network("fd00::/112")
    assert Addresses("fd00::/112").choose(set()) == "fd00::101"
    assert Addresses("fd00::/48", draw=by_lot).choose(set()).startswith("fd00:")


def test_the_same_port_over_two_protocols_has_one_node_port() -> None:
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 80, "protocol": "UDP", "nodePort": 30042}]
    obj = made(rules(), write(), "s", *ports, type="NodePort")
    assert [port["nodePort"] for port in obj["spec"]["ports"]] == [30042, 30042]


def test_a_health_check_gets_a_port_of_its_own_or_the_one_it_asks_for() -> None:
    using = rules()
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    first = made(using, write(), "a", **local)
    assert first["spec"]["healthCheckNodePort"] != first["spec"]["ports"][0]["nodePort"]
    made(using, write(), "b", healthCheckNodePort=30033, **local)
    with pytest.raises(Refusal, match="failed to allocate requested HealthCheck NodePort 30033"):
        made(using, write(), "c", healthCheckNodePort=30033, **local)


@pytest.mark.parametrize("wanted", [30000, 30001])
def test_a_chosen_port_is_none_that_the_service_asks_for_itself(wanted: int) -> None:
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": wanted}
    checked = made(rules(ports=range(30000, 30002)), write(), "a", **local)["spec"]
    assert {checked["ports"][0]["nodePort"], checked["healthCheckNodePort"]} == {30000, 30001}
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2, "nodePort": wanted}]
    named = made(rules(ports=range(30000, 30002)), write(), "a", *ports, type="NodePort")["spec"]
    assert {port["nodePort"] for port in named["ports"]} == {30000, 30001}


def updated(using: ServiceRules, old: RawObject, how: Write | None = None, **spec: Any) -> tuple[RawObject, list[str]]:
    how = how or write([old])
    obj, _ = using.decode({**old, "spec": {**old["spec"], **spec}})
    using.default(obj)
    using.prepare_update(obj, old, how)
    return obj, [cause.field for cause in using.validate(obj, old, how)]


def test_ports_keep_their_node_ports_by_name() -> None:
    using = rules()
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    old = made(using, write(), "s", *ports, type="NodePort")
    had = {port["name"]: port["nodePort"] for port in old["spec"]["ports"]}
    new, causes = updated(using, old, ports=[{"name": "b", "port": 3}, {"name": "c", "port": 4, "nodePort": had["a"]}])
    assert causes == []
    assert [port["nodePort"] for port in new["spec"]["ports"]] == [had["b"], had["a"]]


def test_a_health_check_s_port_does_not_change() -> None:
    using = rules()
    old = made(using, write(), "s", type="LoadBalancer", externalTrafficPolicy="Local")
    assert updated(using, old, healthCheckNodePort=0)[1] == []
    assert updated(using, old, healthCheckNodePort=30009)[1] == ["spec.healthCheckNodePort"]


def test_a_second_address_cannot_be_added_or_the_first_replaced() -> None:
    using = rules()
    old = made(using, write(), "s", clusterIP="10.9.0.5")
    with pytest.raises(Refusal, match="multiple cluster IPs are specified"):
        updated(using, old, clusterIPs=["10.9.0.5", "fd00::1"])
    assert updated(using, old, clusterIP="10.9.0.6", clusterIPs=["10.9.0.6"])[1] == ["spec.clusterIPs[0]"]


def test_two_addresses_of_one_family_are_refused() -> None:
    with pytest.raises(Refusal, match="may specify no more than one IP for each IP family"):
        made(rules(), write(), "s", clusterIP="10.9.0.5", clusterIPs=["10.9.0.5", "10.9.0.6"])


def test_an_address_and_its_family_must_agree() -> None:
    with pytest.raises(Refusal, match=r"expected an IPv6 value as indicated by `ipFamilies\[0\]`"):
        made(rules(), write(), "s", clusterIP="10.9.0.5", ipFamilies=["IPv6"])


def test_services_are_selected_by_type_and_address() -> None:
    obj = made(rules(), write(), "s", clusterIP="10.9.0.5")
    assert {name: read(obj) for name, read in SELECTABLE.items()} == {
        "spec.clusterIP": "10.9.0.5",
        "spec.type": "ClusterIP",
    }
