"""The demo's model: tested before it is offered, then sentences close in meaning are close, too."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from api_client import Caller
from hub_client import wait_until
from jobs import nothing_left

from portal.demo.people import People
from portal.demo.showcase.models import MARK, MODEL, ModelThread, make_environment, model_folder
from portal.paths import data_path

pytestmark = [pytest.mark.slurm, pytest.mark.hub]
NAME = "sentences"
SENTENCES = ["That is a happy person.", "She is glad and content.", "The parser has a memory leak."]


@pytest.fixture(scope="module")
def catalog(demo: Any) -> Iterator[list[dict[str, Any]]]:
    """What the catalog says of the model: before its test, and after."""
    (demo.home.demo / MARK).unlink(missing_ok=True)  # of a run before
    make_environment(demo.home.cache, print)  # kept in the cache
    said: list[str] = []
    deploy = data_path("deploy") / "demo"
    password = People.read(deploy / "people.toml").password
    thread = ModelThread(
        demo.home, deploy / "models", demo.environments, demo.url, password, said.append
    )
    with Caller(demo.url, "ada") as ada:

        def items() -> list[dict[str, Any]]:
            return list(ada.get("model-catalog").json()["items"])

        before = [item for item in items() if item["name"] == MODEL]
        thread.run()
        assert any(line.startswith(f"model {MODEL}: offered") for line in said), said
        yield [*before, *items()]
    with Caller(demo.url, "grace") as grace:
        grace.delete(f"models/catalog-{MODEL}")
        nothing_left(demo, "grace")
    (demo.environments / "embeddings.yaml").unlink()
    (model_folder(demo.home) / f"{MODEL}.yaml").unlink()


@pytest.fixture
def ada(demo: Any) -> Iterator[Caller]:
    with Caller(demo.url, "ada") as ada:
        yield ada
        ada.delete(f"models/{NAME}")
        nothing_left(demo, "ada")


def vectors(answer: httpx.Response) -> list[list[float]]:
    assert answer.status_code == 200, answer.text
    return [each["embedding"] for each in answer.json()["data"]]


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)


def test_a_model_of_the_catalog_answers_with_what_sentences_mean(
    demo: Any, catalog: list[dict[str, Any]], ada: Caller
) -> None:
    item = catalog[-1]
    assert (item["name"], item["offered"], item["problem"]) == (MODEL, True, "")
    made = ada.put(f"models/{NAME}", json={"limits": item["limits"]})
    address = f"{demo.url}{made.json()['address']}"
    refused = ada.post(f"models/{NAME}/versions", json={"source": {"model": "nobodys"}})
    assert refused.status_code == 404 and "no model 'nobodys'" in refused.text
    added = ada.post(f"models/{NAME}/versions", json={"source": {"model": MODEL}})
    assert added.status_code == 200, added.text
    version = added.json()["versions"][0]
    assert version["source"]["model"] == MODEL and version["environment"] == "embeddings"

    ask = {"url": f"{address}v1/embeddings", "json": {"model": MODEL, "input": SENTENCES}}
    wait_until(
        "the model answers", lambda: ada.post(**ask).is_success, 60
    )  # from asleep: each request wakes it
    happy, glad, leak = vectors(ada.post(**ask))
    assert len(happy) == 384
    assert cosine(happy, glad) > cosine(happy, leak) + 0.2
    assert cosine(happy, glad) > cosine(glad, leak) + 0.2
    bad = ada.post(ask["url"], json={"input": 3})
    assert bad.status_code == 422


def test_only_curators_test_models(demo: Any, catalog: list[dict[str, Any]], ada: Caller) -> None:
    assert ada.post(f"model-catalog/{MODEL}/test").status_code == 403
    squatted = ada.put("models/catalog-mine", json={})
    assert squatted.status_code == 403 and "tests of the catalog" in squatted.text
