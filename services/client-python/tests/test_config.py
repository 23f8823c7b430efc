"""Addresses, tokens, names and settings of clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import borough
from borough.config import ClientConfig, Tls


def config(**given: Any) -> ClientConfig:
    return ClientConfig(**({"gateways": ["h:1"], "user": "alice", "cell": "alpha"} | given))


def test_addresses_with_and_without_a_scheme_are_taken() -> None:
    found = config(gateways=["127.0.0.1:7000", "http://localhost:1/", "[::1]:7000"]).parsed_gateways()
    assert [each.target for each in found] == ["127.0.0.1:7000", "localhost:1", "[::1]:7000"]
    secure = config(gateways=["https://h:1", "h:2"], tls=Tls("ca.pem")).parsed_gateways()
    assert [each.target for each in secure] == ["h:1", "h:2"]


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("", "is empty"),
        ("http://", "is empty"),
        ("localhost", "has no port"),
        ("[::1]", "has no port"),
        (":7400", "has no host"),
        ("h:", 'has the port ""'),
        ("h:0", 'has the port "0"'),
        ("h:65536", 'has the port "65536"'),
        ("h:http", 'has the port "http"'),
        ("[::1]:-1", 'has the port "-1"'),
        ("h:1/x", 'has the path "/x"'),
        ("a b:1", "is no address"),
        ("https://h:1", 'has the scheme "https", and no `tls` says whom to trust'),
        ("ftp://h:1", 'has the scheme "ftp"'),
    ],
)
def test_the_part_of_an_address_that_is_wrong_is_named(address: str, problem: str) -> None:
    with pytest.raises(borough.InvalidError) as caught:
        config(gateways=["h:1", address])
    assert str(caught.value).startswith(f'gateways[1]: "{address}" {problem}; accepted: HOST:PORT')


def test_a_plain_address_is_refused_with_tls() -> None:
    with pytest.raises(borough.InvalidError, match='has the scheme "http"'):
        config(gateways=["http://h:1"], tls=Tls("ca.pem"))


def test_every_wrong_setting_is_named_at_once() -> None:
    with pytest.raises(borough.InvalidError) as caught:
        config(gateways=[], user="A", cell="", deadline=0, patience=-1, token="a", token_file="b")
    assert [each.field for each in caught.value.fields] == ["user", "cell", "deadline", "patience", "gateways", "token"]
    with pytest.raises(borough.InvalidError, match="gateways"):
        config(gateways="h:1")


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        pytest.param("", "is empty", id="nothing"),
        pytest.param(" \n", "is empty", id="space"),
        pytest.param("two words", "has other", id="words"),
        pytest.param("ü", "has other", id="letter"),
        pytest.param("x" * 8193, "has more than 8,192", id="long"),
    ],
)
def test_a_token_that_cannot_be_sent_is_refused_without_being_shown(token: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(token, encoding="utf-8")
    for given, source in (({"token": token}, "the caller"), ({"token_file": path}, f"the file {path}")):
        with pytest.raises(borough.InvalidError) as caught:
            config(**given).authorization()
        text = str(caught.value)
        assert text.startswith(f"token: the token of {source} {problem}")
        assert len(text) < 300


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(borough.InvalidError, match="/nonexistent/token"):
        borough.Client("h:1", user="alice", cell="alpha", token_file="/nonexistent/token")
    with pytest.raises(borough.InvalidError, match=r"tls\.ca"):
        borough.Client("h:1", user="alice", cell="alpha", tls=Tls("/nonexistent/ca.pem"))
    with pytest.raises(borough.InvalidError, match="both `certificate` and `key`"):
        borough.Client("h:1", user="alice", cell="alpha", tls=Tls("ca.pem", certificate="cert.pem"))


def test_jobs_and_tasks_are_named_as_people_write_them() -> None:
    assert str(borough.JobRef.of("web", "alice")) == "alice/web"
    assert str(borough.JobRef.of("bob/web", "alice")) == "bob/web"
    assert str(borough.TaskRef.of("web/0", "alice")) == "alice/web/0"
    assert str(borough.TaskRef.of("bob/web/12", "alice")) == "bob/web/12"
    for wrong in ("", "/", "a/b/c", "Web", "web/", "-a"):
        with pytest.raises(borough.InvalidError, match="NAME or USER/NAME"):
            borough.JobRef.of(wrong, "alice")
    for wrong in ("web", "web/x", "web/-1", "web/²", "a/b/c/1"):
        with pytest.raises(borough.InvalidError):
            borough.TaskRef.of(wrong, "alice")


def test_a_table_follows_the_items_of_a_watch() -> None:
    def endpoint(index: int, incarnation: int = 1) -> borough.Endpoint:
        message = borough.Endpoint(user="alice", job="web", index=index, incarnation=incarnation, host="::1")
        return borough.Endpoint.from_message(message.to_message())

    table = borough.EndpointTable()
    assert table.apply(borough.Snapshot((endpoint(1), endpoint(0)), borough.Cursor()))
    assert [each.index for each in table] == [0, 1]
    assert table.apply(borough.Published(endpoint(0, 2)))
    table.apply(borough.Withdrawn("alice", "web", 0, 1))
    assert len(table) == 2, "the attempt before is gone, and the later one is published"
    table.apply(borough.Withdrawn("alice", "web", 0, 2))
    assert [each.index for each in table] == [1]
    assert not table.apply(borough.Resync("list again")) and len(table) == 1, "what is known stays in use"


def test_addresses_are_those_of_a_named_port() -> None:
    from borough.v1 import Port

    ports = (Port(name="http", number=80), Port(name="admin", number=81))
    endpoints = [borough.Endpoint(host="::1", ports=ports), borough.Endpoint(host="10.0.0.1")]
    assert borough.addresses(iter(endpoints)) == ["[::1]:80"]
    assert borough.addresses(iter(endpoints), "admin") == ["[::1]:81"]
    assert borough.addresses(iter(endpoints), "nope") == []
