"""The demo's models: tested before they are offered. Then sentences close in meaning are close,
and a small language model talks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from api_client import Caller
from hub_client import wait_until
from jobs import nothing_left

from portal.demo.people import People
from portal.demo.showcase.models import (
    ENVIRONMENT,
    MARK,
    MODELS,
    ModelThread,
    make_environment,
    model_folder,
)
from portal.paths import data_path

pytestmark = [pytest.mark.slurm, pytest.mark.hub]
EMBEDDINGS, LANGUAGE = MODELS
NAME = "served"
SENTENCES = ["That is a happy person.", "She is glad and content.", "The parser has a memory leak."]


@pytest.fixture(scope="module")
def catalog(demo: Any) -> Iterator[list[dict[str, Any]]]:
    """What the catalog says of the models after their tests."""
    (demo.home.demo / MARK).unlink(missing_ok=True)  # of a run before
    make_environment(demo.home.cache, print)  # kept in the cache
    said: list[str] = []
    deploy = data_path("deploy") / "demo"
    password = People.read(deploy / "people.toml").password
    thread = ModelThread(
        demo.home, deploy / "models", demo.environments, demo.url, password, said.append
    )
    with Caller(demo.url, "ada") as ada:
        thread.run()
        offered = [f"model {model}: offered" for model in MODELS]
        assert [line.partition(" after")[0] for line in said] == offered, said
        yield list(ada.get("model-catalog").json()["items"])
    with Caller(demo.url, "grace") as grace:
        for model in MODELS:
            grace.delete(f"models/catalog-{model}")
        nothing_left(demo, "grace")
    (demo.environments / f"{ENVIRONMENT}.yaml").unlink()
    for model in MODELS:
        (model_folder(demo.home) / f"{model}.yaml").unlink()


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


def served(demo: Any, catalog: list[dict[str, Any]], ada: Caller, model: str) -> str:
    """Serve a model of the catalog; return its address."""
    (item,) = (item for item in catalog if item["name"] == model)
    assert (item["offered"], item["problem"]) == (True, "")
    made = ada.put(f"models/{NAME}", json={})
    refused = ada.post(f"models/{NAME}/versions", json={"source": {"model": "nobodys"}})
    assert refused.status_code == 404 and "no model 'nobodys'" in refused.text
    added = ada.post(f"models/{NAME}/versions", json={"source": {"model": model}})
    assert added.status_code == 200, added.text
    assert added.json()["limits"] == item["limits"]
    version = added.json()["versions"][0]
    assert version["source"]["model"] == model and version["environment"] == ENVIRONMENT
    return f"{demo.url}{made.json()['address']}"


def test_sentences_close_in_meaning_are_close(
    demo: Any, catalog: list[dict[str, Any]], ada: Caller
) -> None:
    address = served(demo, catalog, ada, EMBEDDINGS)
    ask = {"url": f"{address}v1/embeddings", "json": {"model": EMBEDDINGS, "input": SENTENCES}}
    wait_until(
        "the model answers", lambda: ada.post(**ask).is_success, 60
    )  # from asleep: each request wakes it
    happy, glad, leak = vectors(ada.post(**ask))
    assert len(happy) == 384
    assert cosine(happy, glad) > cosine(happy, leak) + 0.2
    assert cosine(happy, glad) > cosine(glad, leak) + 0.2
    bad = ada.post(ask["url"], json={"input": 3})
    assert bad.status_code == 422


def test_a_language_model_talks_and_streams(
    demo: Any, catalog: list[dict[str, Any]], ada: Caller
) -> None:
    url = f"{served(demo, catalog, ada, LANGUAGE)}v1/chat/completions"
    say = [{"role": "user", "content": "Say hello."}]
    asked = {"messages": say, "max_tokens": 12, "temperature": 0}
    wait_until("the model answers", lambda: ada.post(url, json=asked).is_success, 60)
    whole = ada.post(url, json=asked).json()["choices"][0]["message"]["content"]
    assert "Hello" in whole
    lines = ada.post(url, json={**asked, "stream": True}).text.splitlines()
    events = [line.removeprefix("data: ") for line in lines if line]
    assert events.pop() == "[DONE]"
    parts = [json.loads(event)["choices"] for event in events]
    said = [choice["delta"].get("content") or "" for choices in parts for choice in choices]
    assert "".join(said) == whole and len([part for part in said if part]) > 5
    assert ada.post(url, json={}).status_code == 400


def test_only_curators_test_models(demo: Any, catalog: list[dict[str, Any]], ada: Caller) -> None:
    assert ada.post(f"model-catalog/{EMBEDDINGS}/test").status_code == 403
    squatted = ada.put("models/catalog-mine", json={})
    assert squatted.status_code == 403 and "tests of the catalog" in squatted.text
