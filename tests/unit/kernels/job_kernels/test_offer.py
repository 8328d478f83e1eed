"""What JupyterLab's dialog chooses: kernelspecs with other resources, and estimates for them."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from portal_session.job_kernels import choices, extension
from portal_session.job_kernels.broker import Kernels
from portal_session.job_kernels.extension import Offer, _may_have_kernels
from portal_session.job_kernels.specs import METADATA, REFUSAL
from portal_session.local_api import Refused
from portal_session.service import ServiceError

ITEM = {
    "environment": "torch",
    "title": "PyTorch",
    "kernels": [{"name": "python3", "title": "Python 3", "language": "python"}],
    "gpu_types": ["v100"],
    "default": {"gpus": 1, "cpus": 2, "memory": "8G", "time": "1:00:00", "partition": None},
}
OPTIONS = {
    "gpus": "GPUs",
    "gpu_type": "",
    "cpus": "CPUs",
    "memory": "",
    "time": "",
    "partition": "",
    "qos": "",
    "nodes": "nodes",
    "constraint": "",
}
USUAL = {"environment": "torch", "kernel": "python3", "gpus": 1, "gpu_type": "v100"}


class Portal(Kernels):
    """The portal, played."""

    def __init__(self) -> None:
        super().__init__(None)
        self.estimated: list[Any] = []
        self.refusal: ServiceError | None = None
        self.items = [ITEM]
        self.options = OPTIONS
        self.answer: dict[str, Any] | ServiceError = {"outlook": "now", "words": "Starts now."}

    async def offered(self) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        answer = {"items": self.items, "fields": [], "options": self.options}
        return {**answer, "per_user": 8, "address": "cpu01"}

    async def estimate(self, body: dict[str, Any]) -> dict[str, Any]:
        self.estimated.append(body)
        if isinstance(self.answer, ServiceError):
            raise self.answer
        return self.answer


@pytest.fixture
def portal() -> Portal:
    return Portal()


@pytest.fixture
async def offer(portal: Portal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Offer:
    monkeypatch.setenv("HOME", str(tmp_path))
    made = Offer(portal, tmp_path / "server", SimpleNamespace(log=logging.getLogger()))
    await made.refresh()
    return made


def spec(offer: Offer, name: str) -> dict[str, Any]:
    return dict(json.loads((offer.folder / "kernels" / name / "kernel.json").read_text()))


def names(offer: Offer) -> set[str]:
    return {path.name for path in (offer.folder / "kernels").iterdir()}


async def test_the_usual_choice_is_the_kernelspec_that_is_there(offer: Offer) -> None:
    assert await offer.chosen(USUAL) == "job-torch-python3-v100"
    defaults = {"cpus": 2, "memory": "8G", "time": "1:00:00"}  # as the dialog begins
    assert await offer.chosen({**USUAL, **defaults}) == "job-torch-python3-v100"
    assert names(offer) == {"job-torch-python3-v100"}
    assert (
        spec(offer, "job-torch-python3-v100")["display_name"] == "Python · 1 \u00d7 V100 · PyTorch"
    )


async def test_other_resources_are_another_kernelspec_which_names_them(offer: Offer) -> None:
    more = {"gpus": 2, "cpus": 1, "memory": "16G", "time": "2:00:00", "constraint": "nvlink"}
    name = await offer.chosen({**USUAL, **more, "qos": None})
    found = spec(offer, name)
    title = "Python · 2 \u00d7 V100, 1 CPU, 16G, 2 h, nvlink · PyTorch"
    assert found["display_name"] == title
    assert found["metadata"][METADATA] == {**USUAL, **more}
    assert await offer.chosen({**USUAL, **more}) == name, "the same again is the same"
    await offer.refresh()
    assert names(offer) == {"job-torch-python3-v100", name}


async def test_a_new_option_of_the_portal_is_one_of_a_kernel(offer: Offer, portal: Portal) -> None:
    more = {"nodes": 1, "licenses": "matlab:2", "seats": 3}
    assert await offer.chosen({**USUAL, "licenses": "matlab:2"}) == "job-torch-python3-v100"
    portal.options = {**OPTIONS, "licenses": "", "seats": "seats"}
    await offer.refresh()
    found = spec(offer, await offer.chosen({**USUAL, **more}))
    title = "Python · 1 \u00d7 V100, 1 node, matlab:2, 3 seats · PyTorch"
    assert found["display_name"] == title
    assert found["metadata"][METADATA] == {**USUAL, **more}


async def test_a_choice_is_there_in_the_next_session(
    offer: Offer, portal: Portal, tmp_path: Path
) -> None:
    name = await offer.chosen({**USUAL, "gpu_type": None})
    assert name == "job-torch-python3"
    await offer.chosen(USUAL)
    later = Offer(portal, tmp_path / "later", SimpleNamespace(log=logging.getLogger()))
    await later.refresh()
    assert names(later) == {"job-torch-python3-v100", name}
    assert choices.read() == [{"environment": "torch", "kernel": "python3", "gpus": 1}]


async def test_the_newest_choices_stay(offer: Offer, tmp_path: Path) -> None:
    for gpus in (2, 3, 4, 5, 6, 7, 8, 3):
        await offer.chosen({**USUAL, "gpus": gpus})
    assert [choice["gpus"] for choice in choices.read()] == [3, 8, 7, 6, 5, 4]
    assert (tmp_path / ".portal/.kernels/choices").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[" * 9000,
        "null",
        '[7, null, {"environment": "other", "kernel": "python3"}]',
        '[{"environment": ["torch"], "kernel": {}}]',
        '[{"environment": "torch", "kernel": "python3", "gpus": "../../x"}]',
        '[{"environment": "torch", "kernel": "python3", "gpus": 2, "memory": {}}]',
    ],
    ids=lambda text: ascii(text)[:30],
)
async def test_damaged_choices_are_left_out(offer: Offer, content: str, tmp_path: Path) -> None:
    (tmp_path / ".portal/.kernels/choices").write_text(content)
    await offer.refresh()
    assert names(offer) == {"job-torch-python3-v100"}


async def test_without_gpus_it_is_a_kernel_on_cpus(offer: Offer) -> None:
    name = await offer.chosen({"environment": "torch", "kernel": "python3", "gpus": 0})
    assert spec(offer, name)["display_name"] == "Python · CPUs · PyTorch"


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpus": "2"},
        {"gpus": -1},
        {"gpus": True},
        {"memory": ["16G"]},
        {"memory": "1\n6G"},
        {"partition": "x" * 100},
        {"time": {}},
    ],
    ids=ascii,
)
async def test_what_cannot_be_a_resource_is_refused(offer: Offer, wrong: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        await offer.chosen({**USUAL, **wrong})
    assert refused.value.status_code == 400 and refused.value.sentence.endswith(".")
    assert names(offer) == {"job-torch-python3-v100"}


@pytest.mark.parametrize("wrong", [{"environment": "other"}, {"kernel": "ir"}, {"kernel": None}])
async def test_what_is_not_offered_is_refused(offer: Offer, wrong: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        await offer.chosen({**USUAL, **wrong})
    assert refused.value.status_code == 404


@pytest.mark.parametrize(
    "answer",
    [
        {"outlook": "refused", "words": "At most 4 GPUs."},
        ServiceError("At most 4 GPUs.", 400),
        ServiceError("At most 4 GPUs.", 403),
    ],
)
async def test_the_dialog_hears_what_the_portal_would_refuse(
    offer: Offer, portal: Portal, answer: Any
) -> None:
    portal.answer = answer
    with pytest.raises(Refused) as refused:
        await offer.chosen({**USUAL, "gpus": 99})
    assert refused.value.sentence == "At most 4 GPUs."
    assert names(offer) == {"job-torch-python3-v100"}


@pytest.mark.parametrize(
    "answer",
    [
        ServiceError("The portal cannot be reached.", 503),
        ServiceError("Too many requests.", 429),
        {"outlook": "unknown", "words": "Start time unknown."},
    ],
)
async def test_a_start_that_is_not_known_is_no_refusal(
    offer: Offer, portal: Portal, answer: Any
) -> None:
    portal.answer = answer
    assert await offer.chosen({**USUAL, "gpus": 2}) in names(offer)


async def test_an_estimate_is_of_the_environment_and_the_resources(
    offer: Offer, portal: Portal
) -> None:
    """The service takes a kernel's name with an id only (KernelEstimates)."""
    assert (await offer.estimate(USUAL))["words"] == "Starts now."
    asked = {"environment": "torch", "gpus": 1, "gpu_type": "v100"}
    assert portal.estimated == [{"options": asked}]


async def test_the_state_is_what_is_offered_and_how_the_kernels_are(
    offer: Offer, portal: Portal
) -> None:
    portal.answers["01234567"] = {"id": "01234567", "state": "ended"}
    state = await offer.state()
    assert state["items"] == [ITEM] and state["kernels"] == portal.answers


async def test_a_course_that_allows_none_is_told_with_its_sentence(
    offer: Offer, portal: Portal
) -> None:
    """An instructor can forbid them while a session runs, and allow them again."""
    portal.refusal = ServiceError("The course 'X' does not allow kernels.", 403)
    with pytest.raises(ServiceError):
        await offer.refresh()
    assert names(offer) == set()
    assert (offer.folder / REFUSAL).read_text() == "The course 'X' does not allow kernels."
    for asked in (offer.state(), offer.chosen(USUAL)):
        with pytest.raises(Refused) as refused:
            await asked
        assert refused.value.status_code == 403
        assert refused.value.sentence == "The course 'X' does not allow kernels."
    portal.answers["01234567"] = {"id": "01234567", "state": "ended"}
    assert (await offer.state())["kernels"] == portal.answers, "one from before is shown"
    portal.refusal = None
    await offer.refresh()
    assert not (offer.folder / REFUSAL).exists()
    assert await offer.chosen(USUAL) in names(offer)
    assert (await offer.state())["items"] == [ITEM]


@pytest.mark.parametrize(
    ("environ", "may"),
    [
        ({}, True),
        ({"PORTAL_COURSE": "dl101", "PORTAL_COURSE_KIND": "course"}, True),
        ({"PORTAL_COURSE": "dl101", "PORTAL_COURSE_KIND": "room"}, False),
        ({"PORTAL_COURSE": "dl101", "PORTAL_COURSE_KIND": "rehearsal"}, False),
        ({"PORTAL_COURSE": "dl101", "PORTAL_COURSE_KIND": "preview"}, False),
        ({"PORTAL_COURSE": "dl101"}, False),
        ({"PORTAL_TENSORBOARD": "[]"}, False),
        ({"PORTAL_PROGRAM": "marimo"}, False),
    ],
    ids=str,
)
def test_the_sessions_that_may_have_them(environ: dict[str, str], may: bool) -> None:
    assert _may_have_kernels(environ) is may


async def test_environments_whose_tests_still_run_are_not_awaited_for_minutes(
    offer: Offer, portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extension, "_NOTHING", 0.05)
    monkeypatch.setattr(offer._adoption, "begin", AsyncMock())
    portal.items = []
    await offer.refresh()
    assert not names(offer)
    following = asyncio.ensure_future(offer._follow())
    await asyncio.sleep(0.02)  # it has asked once
    portal.items = [ITEM]
    for _ in range(100):
        await asyncio.sleep(0.02)
        if names(offer):
            break
    following.cancel()
    assert names(offer) == {"job-torch-python3-v100"}
