"""What the API's endpoints are made of: cursors, filters and orders, CSV, the OpenAPI document."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from pydantic import ValidationError

from docs import rest_api
from portal.dashboard.view import Placed
from portal.errors import InvalidRequest
from portal.handlers.admin.openapi import document, document_bytes
from portal.handlers.base.csv import cell, lines
from portal.handlers.base.endpoint import Endpoint, NoContent
from portal.handlers.base.listing import natural, ordered
from portal.handlers.base.paging import PageQuery, offset_of, page
from portal.handlers.cluster.history import HistoryQuery
from portal.handlers.cluster.jobs import JobFilter, JobQuery, JobsCsv
from portal.handlers.cluster.jobs import selected as selected_jobs
from portal.handlers.routes import endpoints
from portal.models import scope
from portal.models.cluster.dashboard import GpuItem, JobItem
from portal.models.cluster.history import HistoryPoint
from portal.models.person import Person

# -- pages --------------------------------------------------------------------------------------


def test_the_cursor_of_a_page_leads_to_the_next() -> None:
    whole = list(range(120))
    got: list[int] = []
    after = None
    while True:
        query = PageQuery(limit=50, after=after)
        start = offset_of(query.after)
        answer = page(whole[start : start + query.limit], query, len(whole))
        assert answer.total == 120
        got += answer.items
        after = answer.next
        if after is None:
            break
    assert got == whole


def test_a_full_last_page_has_no_next() -> None:
    assert page([1, 2], PageQuery(limit=2), 2).next is None
    assert page([], PageQuery(limit=2), 0).next is None


@pytest.mark.parametrize(
    "after", ["", "0", "50", "bzUw!", "é", "bzUwAA", "x" * 100, "bw", "bzA5OTk5OTk5OTk5OTk5OTk5OTk"]
)
def test_a_cursor_of_someones_own_making_is_refused(after: str) -> None:
    with pytest.raises(InvalidRequest, match="Omit it"):
        offset_of(after)


def test_a_page_beyond_the_end_is_empty() -> None:
    assert page([], PageQuery(after="bzk5OTk"), 3).next is None  # "o9999"


# -- filters and orders -------------------------------------------------------------------------


def job(id_: str, **values: Any) -> JobItem:
    return JobItem(**{"id": id_, "state": "RUNNING", "words": "running", **values})


JOBS = [
    job("10", user="ada", mine=True, gpus=4, partition="gpu", nodes=("gpu01", "gpu02")),
    job("9", gpus=1, gpu_type="v100", partition="cpu"),
    job("11_2", user=None, gpus=2, partition="gpu", state="PENDING", position=1),
    job("11_10", user=None, gpus=2, partition="gpu", portal=True),
]


class View:
    """What the lists need of a ClusterView."""

    gpus = {"gpu01/0": GpuItem(node="gpu01", index=0, type="t4", state="busy", job_id="10")}
    unnamed_jobs = Placed(
        {
            one.id: one.model_copy(update={"user": None, "mine": False, "position": None})
            for one in JOBS
        },
        {"11_2": 1},
    )

    def own_jobs(self, user: str) -> dict[str, JobItem]:
        return {one.id: one for one in JOBS if one.user == user}


VIEW: Any = View()
ADA = Person(name="ada")


def ids(**query: Any) -> list[str]:
    return [item.id for item in selected_jobs(VIEW, ADA, JobFilter(**query))]


def test_jobs_are_in_the_order_of_their_numbers() -> None:
    assert ids(sort="id") == ["9", "10", "11_2", "11_10"]
    assert ids() == ["11_10", "11_2", "10", "9"]


def test_what_is_unknown_or_blank_stands_at_the_end_both_ways() -> None:
    assert ids(sort="user") == ["10", "9", "11_2", "11_10"]
    assert ids(sort="-user") == ["10", "9", "11_2", "11_10"]
    assert ids(sort="position") == ["11_2", "9", "10", "11_10"]


def test_an_order_by_names_shows_ones_own_first_and_the_others_as_ever() -> None:
    for sort in ("user", "-user"):
        assert ids(sort=sort) == ["10", "9", "11_2", "11_10"]
        assert [one.id for one in selected_jobs(VIEW, Person(name="x"), JobFilter(sort=sort))] == [
            "9", "10", "11_2", "11_10",
        ]  # fmt: skip
    assert not selected_jobs(VIEW, Person(name="x"), JobFilter(user="ada"))


def test_ones_own_stand_in_a_page_of_the_shared_order() -> None:
    items = selected_jobs(VIEW, ADA, JobFilter(sort="id"))
    assert [one.user for one in items[0:2]] == [None, "ada"]
    assert items[1].mine
    assert not items[0].mine
    assert [one.mine for one in items] == [False, True, False, False]


def test_filters() -> None:
    assert ids(partition="GPU", sort="id") == ["10", "11_2", "11_10"]
    assert ids(partition="gpu,cpu", sort="id") == ["9", "10", "11_2", "11_10"]
    assert ids(state="pending") == ["11_2"]
    assert ids(node="gpu02") == ["10"]
    assert ids(type="t4") == ["10"]  # from the GPUs that it holds
    assert ids(type="v100") == ["9"]  # as Slurm says it
    assert ids(user="ada") == ["10"]
    assert ids(user="None") == []
    assert ids(user="", partition="cpu") == ["9"]  # an empty field of a form filters nothing
    assert ids(mine="true") == ["10"]
    assert ids(portal="1") == ["11_10"]
    assert ids(text="GPU02") == ["10"]
    assert ids(text="11_", sort="gpus") == ["11_2", "11_10"]


def test_every_order_that_is_offered_works() -> None:
    for endpoint in endpoints():
        for operation in endpoint.operations.values():
            fields = operation.query.model_fields
            if "sort" not in fields:
                continue
            required = {name: "x" for name, field in fields.items() if field.is_required()}
            for name in fields["sort"].annotation.__args__:
                operation.query(sort=name, **required)
    for name in JobFilter.model_fields["sort"].annotation.__args__:
        assert len(ids(sort=name)) == 4


def test_an_order_that_is_not_offered_is_refused() -> None:
    for sort in ("__class__", "comment", "--id", "-", ""):
        with pytest.raises(ValidationError):
            JobQuery(sort=sort)


def test_natural() -> None:
    assert sorted(["gpu10", "gpu2", "a", "gpu2x", "10", "9"], key=natural) == [
        "a", "gpu2", "gpu2x", "gpu10", "9", "10",
    ]  # fmt: skip
    assert ordered([job("1", user="u10"), job("2", user="u9")], "user")[0].id == "2"
    natural("\u00b2\u0661")  # digits to Unicode, but not to int()


def test_history_asks_for_what_can_be() -> None:
    assert HistoryQuery(start=0, end=10).times == (0, 10)
    start, end = HistoryQuery().times
    assert end - start == pytest.approx(86400)
    for start, end in ((10, 10), (10, 5), (0, 4 * 366 * 86400), (float("nan"), 5), (-1, 5)):
        with pytest.raises(ValidationError):
            HistoryQuery(start=start, end=end)
    for points in (0, 1001):
        with pytest.raises(ValidationError):
            HistoryQuery(points=points)
    HistoryQuery(start=32503679999.0)  # in the future: the end is after it


# -- CSV ----------------------------------------------------------------------------------------


def read(rows: list[Any], columns: tuple[str, ...], **times: frozenset[str]) -> list[list[str]]:
    return list(csv.reader(io.StringIO("".join(lines(rows, columns, **times)), newline="")))


@pytest.mark.parametrize("text", ["=1+1", "+x", "-2+3", "@SUM(A1)", "\t=1", "\n=1"])
def test_no_cell_is_a_formula(text: str) -> None:
    [_, row] = read([job("1", name=text, user='"=x",y')], ("name", "user"))
    assert row == [f"'{text}", '"=x",y']


def test_cells() -> None:
    item = job(
        "1_[2-3]",
        submit_time=1700000000.4,
        nodes=("a", "b"),
        gpu_indexes={"a": (0, 1), "b": (3,)},
        mine=True,
        name="x\0y\u00e9\x1b[31m\r\x9b",
    )
    assert read([item], JobsCsv.columns, times=JobsCsv.times)[1] == [
        cell(value) if name != "submit_time" else "2023-11-14T22:13:20+00:00"
        for name, value in {
            **dict.fromkeys(JobItem.model_fields, ""),
            "id": "1_[2-3]",
            "state": "RUNNING",
            "words": "running",
            "portal": "no",
            "mine": "yes",
            "held": "no",
            "name": "x\ufffdy\u00e9\ufffd[31m\ufffd\ufffd",
            "nodes": "a b",
            "gpus": "0",
            "cpus": "0",
            "gpu_indexes": "a:0,1 b:3",
        }.items()
    ]


def test_unknown_is_empty_and_zero_is_zero() -> None:
    point = HistoryPoint(at=0, seconds=60, gpus_busy=0.0)
    assert read([point], ("gpus_busy", "gpus_total")) == [["gpus_busy", "gpus_total"], ["0.0", ""]]


def test_an_empty_list_has_its_line_of_names() -> None:
    assert read([], ("a", "b")) == [["a", "b"]]


def test_many_lines_come_in_pieces() -> None:
    pieces = list(lines([job(str(n)) for n in range(1234)], ("id",)))
    assert len(pieces) == 25
    assert "".join(pieces).split() == ["id", *map(str, range(1234))]


# -- OpenAPI ------------------------------------------------------------------------------------

DOCUMENT = json.loads(document_bytes(endpoints(), "/services/portal/"))


def operations() -> list[tuple[type[Endpoint], str, Any]]:
    return [
        (endpoint, method, operation)
        for endpoint in endpoints()
        for method, operation in endpoint.operations.items()
    ]


def test_every_operation_is_described_once() -> None:
    told = {(path, m) for path, words in DOCUMENT["paths"].items() for m in words} - {
        (path, "parameters") for path in DOCUMENT["paths"]
    }
    assert told == {(f"/{endpoint.path}", method) for endpoint, method, _ in operations()}
    assert len(told) == len(operations())
    ids = [
        words["operationId"]
        for path in DOCUMENT["paths"].values()
        for method, words in path.items()
        if method != "parameters"
    ]
    assert len(set(ids)) == len(ids)


def test_references_lead_somewhere_and_everything_is_used() -> None:
    text = json.dumps(DOCUMENT)
    for name in DOCUMENT["components"]["schemas"]:
        assert f'"#/components/schemas/{name}"' in text, f"nobody uses {name}"
    for part in text.split('"#/components/schemas/')[1:]:
        assert part.partition('"')[0] in DOCUMENT["components"]["schemas"]


def test_scopes_are_named() -> None:
    for endpoint, method, operation in operations():
        words = DOCUMENT["paths"][f"/{endpoint.path}"][method]
        wanted = [operation.scope] if operation.scope else []
        assert words["security"] == [{"token": wanted}]
    for name in scope.MEANINGS:
        assert name in DOCUMENT["components"]["securitySchemes"]["token"]["description"]


def test_path_parameters_are_those_of_the_path() -> None:
    for endpoint, _, _ in operations():
        given = DOCUMENT["paths"][f"/{endpoint.path}"].get("parameters", [])
        assert {one["name"] for one in given} == set(endpoint.parameters)
        assert all(f"{{{name}}}" in endpoint.path for name in endpoint.parameters)


def test_no_parameter_of_a_query_may_be_null() -> None:
    for words in DOCUMENT["paths"].values():
        for method, operation in words.items():
            if method != "parameters":
                assert '"null"' not in json.dumps(operation["parameters"])


def test_every_error_is_the_same_object() -> None:
    for endpoint, method, operation in operations():
        answers = DOCUMENT["paths"][f"/{endpoint.path}"][method]["responses"]
        wanted = "204" if operation.answer is NoContent else str(operation.status)
        assert (wanted if operation.media == "application/json" else "200") in answers
        for status, answer in answers.items():
            if status >= "400":
                reference = answer["content"]["application/json"]["schema"]["$ref"]
                assert reference == "#/components/schemas/ErrorAnswer"


def test_the_reference_for_people_is_up_to_date() -> None:
    assert rest_api.TARGET.read_text() == rest_api.page(), "run `make docs`"


def test_routes_do_not_hide_each_other() -> None:
    assert len({endpoint.path for endpoint in endpoints()}) == len(endpoints())
    assert document((), "/x/")["paths"] == {}
