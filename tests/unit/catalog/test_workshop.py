"""Builds and tests: shared, followed, judged, taken up again after a restart."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from build_schedulers import DIGEST, SOURCE, Site
from traitlets.config import Config

from portal.catalog.builds import job_monitor
from portal.errors import Conflict, InvalidRequest, SlurmRefused, SlurmUnavailable
from portal.models.catalog.environment import EnvironmentState
from portal.models.catalog.image_job import LIVE, Work, WorkState
from portal.models.cluster.cluster import JobState, Partition
from portal.models.person import Person
from portal.store import Store


@pytest.fixture
def site(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(job_monitor, "LOG_PATIENCE", 0.0)
    return Site(tmp_path, store)


async def test_from_a_reference_to_a_version_that_is_ready(site: Site) -> None:
    build = await site.build_scheduler.build(await site.draft(), "grace")
    assert (build.source, build.digest) == (f"{SOURCE.rpartition(':')[0]}@{DIGEST}", DIGEST)
    assert (await site.version()).state is EnvironmentState.BUILDING
    await site.turn()
    (job,) = site.ids()
    assert (await site.build(build.id)).job_id == job, "its id is kept at once"
    site.cluster.start(job)
    site.say(job, step="pull", message="Copying blob", share=0.25)
    await site.turn()
    seen = await site.build(build.id)
    assert (seen.state, seen.step, seen.share) == (WorkState.RUNNING, "pull", 0.25)
    site.passes(job)
    await site.turn()
    version = await site.version()
    assert (version.state, version.environment.digest) == (EnvironmentState.TESTING, DIGEST)
    assert version.environment.image == site.cluster.told[job][0].target
    await site.turn()
    tests = await site.tests()
    assert set(tests) == {"", "v100", "t4"}
    assert {site.option(test.job_id, "gres") for test in tests.values()} == {
        None,
        "gpu:v100:1",
        "gpu:t4:1",
    }
    for test in tests.values():
        site.cluster.start(test.job_id)
        site.passes(test.job_id)
    await site.turn()
    await site.turn()
    version = await site.version()
    assert (version.state, version.message) == (EnvironmentState.READY, "")
    verdicts = await site.store.tests.verdicts()
    assert all(one.passed for one in verdicts[version.environment.fingerprint].values())
    assert verdicts[version.environment.fingerprint][""].facts["packages"] == ["torch==2.9"]


@pytest.mark.parametrize("ending", ["error", "slurm", "cancel"])
async def test_a_build_that_fails_says_where(site: Site, ending: str) -> None:
    build = await site.build_scheduler.build(await site.draft(), "grace")
    await site.turn()
    (job,) = site.ids()
    site.cluster.start(job)
    site.say(job, step="install")
    await site.turn()
    if ending == "error":
        site.say(job, error="There is no room left.")
        await site.turn()
    elif ending == "slurm":
        site.cluster.end(job, JobState.NODE_FAIL)
        await site.turn()
    else:
        await site.build_scheduler.cancel_build(build.id, "grace")
    over = await site.build(build.id)
    assert (over.state in LIVE, over.step) == (False, "install")


async def test_two_who_ask_for_the_same_share_one_build(site: Site) -> None:
    first, second = await site.draft("one"), await site.draft("two")
    builds = await asyncio.gather(
        site.build_scheduler.build(first, "grace"), site.build_scheduler.build(second, "barbara")
    )
    assert builds[0].id == builds[1].id
    assert set((await site.build(builds[0].id)).askers) == {"grace", "barbara"}
    await site.turn()
    (job,) = site.ids()
    site.cluster.start(job)
    site.passes(job)
    await site.turn()
    assert {(await site.version(name)).state for name in ("one", "two")} == {"testing"}
    await site.turn()
    # The same image in both: it is tested once.
    assert len(site.ids(Work.TEST)) == 3


async def test_an_image_that_is_there_is_not_built_again(site: Site) -> None:
    await site.build_scheduler.build(await site.draft(), "grace")
    await site.turn()
    site.passes(site.ids()[0])
    await site.turn()
    again = await site.draft("other")
    build = await site.build_scheduler.build(again, "barbara")
    await site.turn()
    assert build.state is WorkState.PASSED
    assert (await site.version("other")).environment.image
    assert len(site.ids(Work.BUILD)) == 1
    Path(site.cluster.told[site.ids()[0]][0].target).unlink()
    await site.build_scheduler.build(await site.draft("third"), "grace")
    await site.turn()
    assert len(site.ids(Work.BUILD)) == 2, "its file is gone"


async def test_a_version_that_is_being_built_is_not_built_twice(site: Site) -> None:
    version = await site.draft()
    await site.build_scheduler.build(version, "grace")
    with pytest.raises(Conflict, match="is already building"):
        await site.build_scheduler.build(version, "grace")
    with pytest.raises(Conflict, match="is being built"):
        await site.build_scheduler.test(
            version.environment.model_copy(update={"image": "/i"}), 1, None, "g"
        )


async def test_what_cannot_be_built(site: Site) -> None:
    with pytest.raises(InvalidRequest, match="has no 'source'"):
        await site.build_scheduler.build(await site.draft(source=None, image="/i.sif"), "grace")
    with pytest.raises(InvalidRequest, match="neither docker://"):
        await site.build_scheduler.build(await site.draft("b", source="ftp://x"), "grace")
    with pytest.raises(InvalidRequest, match="cannot be read"):
        await site.build_scheduler.build(await site.draft("c", source="/nothing.sif"), "grace")
    with pytest.raises(InvalidRequest, match="has no image yet"):
        await site.build_scheduler.test(
            (await site.version()).environment.model_copy(
                update={"source": "docker://a/b", "image": None}
            ),
            None,
            None,
            "grace",
        )


@pytest.mark.parametrize(
    ("state", "more", "ended", "words"),
    [
        (JobState.TIMEOUT, {"time_limit": 3600}, "failed", "time limit of 1 h"),
        (JobState.OUT_OF_MEMORY, {"memory": 16384}, "failed", r"more memory .*16384 MiB"),
        (JobState.NODE_FAIL, {"nodes": ("cpu01",)}, "unknown", "The node failed on cpu01"),
        (JobState.CANCELLED, {"reason": "CancelledBy:root"}, "cancelled", "in Slurm by root"),
        (
            JobState.CANCELLED,
            {"reason": "CancelledBy:root", "node_trouble": "cpu01 (Prolog error)"},
            "unknown",
            r"could not launch the job on cpu01 \(Prolog error\)\. Try again",
        ),
        (JobState.PREEMPTED, {}, "unknown", "preempted"),
        (JobState.FAILED, {"exit_code": 127}, "failed", "ended with code 127"),
        (None, {}, "unknown", "unknown to slurmctld"),
    ],
)
async def test_how_a_build_ends_that_says_nothing(
    site: Site, state: JobState | None, more: dict[str, object], ended: str, words: str
) -> None:
    build = await site.build_scheduler.build(await site.draft(), "grace")
    await site.turn()
    (job,) = site.ids()
    if state is None:
        site.cluster.jobs.clear()
    else:
        site.cluster.end(job, state, **more)
    await site.turn()
    seen = await site.build(build.id)
    assert seen.state == ended
    version = await site.version()
    assert (version.state, version.message) == (EnvironmentState.FAILED, seen.message)
    assert re.search(words, seen.message), seen.message


async def test_what_the_job_says_is_the_reason(site: Site) -> None:
    await site.build_scheduler.build(await site.draft(), "grace")
    await site.turn()
    (job,) = site.ids()
    site.write(
        job, 'PORTAL 00000000000000000000000000000000 {"at": 1, "step": "x", "error": "no"}\n'
    )
    await site.turn()
    assert (await site.version()).state is EnvironmentState.BUILDING, "that was not the job"
    site.say(job, error="There is no space left.")
    await site.turn()
    assert (await site.version()).message == "There is no space left."


async def test_cancel_and_retry(site: Site) -> None:
    build = await site.build_scheduler.build(await site.draft(), "grace")
    await site.turn()
    with pytest.raises(Conflict, match="not finished"):
        await site.build_scheduler.retry(build.id, "grace")
    ended = await site.build_scheduler.cancel_build(build.id, "grace")
    assert (ended.state, ended.message) == (WorkState.CANCELLED, "Cancelled by grace.")
    assert site.cluster.jobs[site.ids()[0]].state is JobState.CANCELLED
    with pytest.raises(Conflict, match="already finished"):
        await site.build_scheduler.cancel_build(build.id, "grace")
    await site.turn()
    assert (await site.version()).state is EnvironmentState.FAILED
    again = await site.build_scheduler.retry(build.id, "barbara")
    assert (again.id != build.id, again.askers) == (True, ("grace", "barbara"))
    await site.turn()
    first, second = (site.cluster.told[id_][0] for id_ in site.ids())
    assert (first.target, first.source) == (second.target, second.source)
    site.passes(site.ids()[1])
    await site.turn()
    assert (await site.version()).state is EnvironmentState.TESTING
    with pytest.raises(Conflict, match="has passed"):
        await site.build_scheduler.retry(again.id, "grace")


async def test_a_restart_in_the_middle_of_a_build(site: Site) -> None:
    build = await site.build_scheduler.build(await site.draft(), "grace")
    await site.turn()
    (job,) = site.ids()
    site.cluster.start(job)
    site.say(job, step="pull")
    site.service()
    site.say(job, step="install")
    await site.turn()
    assert (await site.build(build.id)).step == "install"
    site.passes(job)
    site.service()
    await site.turn()
    assert (await site.version()).state is EnvironmentState.TESTING
    assert site.ids(Work.BUILD) == [job]


async def test_a_job_whose_id_was_not_kept_is_taken_up_again(site: Site) -> None:
    build = await site.build_scheduler.build(await site.draft(), "grace")
    await site.turn()
    await site.store.builds.change(build.id, job_id="")  # the service ended before it wrote it
    site.service()
    await site.turn()
    assert (await site.build(build.id)).job_id == site.ids()[0]
    assert len(site.ids()) == 1


async def test_slurm_away_and_slurm_that_refuses(site: Site) -> None:
    build = await site.build_scheduler.build(await site.draft(), "grace")
    site.cluster.error = SlurmUnavailable("Slurm does not answer.")
    with pytest.raises(SlurmUnavailable):
        await site.turn()
    assert (await site.build(build.id)).state is WorkState.WAITING
    site.cluster.error = None
    submit = site.cluster.submit

    async def refuse(*_: object, **__: object) -> str:
        raise SlurmRefused("Invalid account")

    site.cluster.submit = refuse  # type: ignore[method-assign]
    await site.turn()
    seen = await site.build(build.id)
    assert (seen.state, seen.message) == ("unknown", "Slurm refused the job: Invalid account")
    site.cluster.submit = submit  # type: ignore[method-assign]


async def test_few_at_a_time(site: Site) -> None:
    site.settings["max_gpu_tests"] = 1
    site.service()
    for number in range(4):
        image = site.place / f"{number}.sif"
        image.write_bytes(b"sif")
        text = f"name: e{number}\ntitle: E\nkind: container\nimage: {image}\n"
        (site.place / f"files/e{number}.yaml").write_text(text)
    await site.turn()
    await site.turn()
    running = [site.option(id_, "gres") for id_ in site.ids()]
    assert len(running) == 4
    assert sum(one is not None for one in running) == 1, "people need the GPUs"
    for id_ in site.ids():
        site.passes(id_)
    await site.turn()
    assert len(site.ids()) == 6, "the last without GPUs, and one on a GPU"


# -- the catalog, by itself ------------------------------------------------------------------


def write(site: Site, name: str = "torch", **more: str) -> Path:
    image = site.place / f"{name}.sif"
    image.write_bytes(b"sif")
    lines = "".join(f"{key}: {value}\n" for key, value in more.items())
    text = f"name: {name}\ntitle: Torch\nkind: container\nimage: {image}\n{lines}"
    (site.place / f"files/{name}.yaml").write_text(text)
    return image


async def test_what_was_never_tested_is_tested_once(site: Site) -> None:
    image = write(site, gpu_types="[v100]")
    await site.turn()
    base, gpu = site.ids()
    assert site.option(gpu, "gres") == "gpu:v100:1"
    site.passes(base)
    site.say(gpu, error="No GPU is seen.")
    await site.turn()
    for _ in range(3):
        await site.turn()
    assert site.ids() == [base, gpu], "what failed is not tried again and again"
    await site.catalog.load()
    found = site.catalog.get("torch", Person(name="ada"))
    assert (found.gpu_types, found.max_gpus) == ((), 0)
    image.write_bytes(b"another")
    site.catalog.offering.forget()
    await site.turn()
    assert len(site.ids()) == 4, "another image"


async def test_a_test_is_told_whose_gpus_it_gets(site: Site) -> None:
    config = Config()
    config.Gpus.vendor_of_type = {"v100": "amd"}
    site.settings["config"] = config
    site.service()
    write(site, gpu_types="[v100]")
    await site.turn()
    base, gpu = site.ids()
    vendors = [site.cluster.told[id_][0].gpu_vendor for id_ in (base, gpu)]
    assert vendors == ["nvidia", "amd"]


async def test_a_test_that_could_not_run_judges_nothing(site: Site) -> None:
    write(site, max_gpus="0")
    await site.turn()
    (job,) = site.ids()
    site.say(job, error="There is no Apptainer on this node.", could_not_run=True)
    await site.turn()
    await site.turn()
    assert await site.store.tests.verdicts() == {}
    assert site.ids() == [job], "not at once"
    (test,) = (await site.tests()).values()
    await site.store.tests.change(test.id, ended_at=1.0)
    await site.turn()
    assert len(site.ids()) == 2, "but after a while"


async def test_what_a_sites_change_cures_is_tested_again_by_itself(site: Site) -> None:
    """A partition that refuses, then one that does not; a limit that is too low, then a higher."""
    write(site, max_gpus="0")
    site.cluster.refusal = SlurmRefused("Slurm refused: Invalid user id.")
    site.cluster.partitions = {"root": Partition(name="root")}
    await site.turn()
    await site.turn()
    assert len((await site.store.tests.of_environment("torch"))[0]) == 1, "not at once"
    site.cluster.refusal = None
    await site.turn()
    assert site.ids() == []
    site.cluster.partitions = {"root": Partition(name="root"), "work": Partition(name="work")}
    await site.turn()
    (job,) = site.ids()
    over = {"time_limit": 1200, "nodes": ("cpu01",)}
    site.cluster.end(job, JobState.TIMEOUT, **over)
    await site.turn()
    site.cluster.partitions = {"work": Partition(name="work")}
    await site.turn()
    assert site.ids() == [job], "it may be the image's own fault"
    site.settings["test_resources"] = {"cpus": 2, "memory": "8G", "time": "0:40:00"}
    site.service()
    await site.turn()
    assert len(site.ids()) == 2
    site.cluster.end(site.ids()[1], JobState.TIMEOUT, **{**over, "time_limit": 2400})
    await site.turn()
    site.service()
    await site.turn()
    assert len(site.ids()) == 2, "a restart alone changes no limit"


async def test_a_version_whose_test_slurm_refused_is_tested_again(site: Site) -> None:
    image = site.place / "own.sif"
    image.write_bytes(b"sif")
    version = await site.draft(source=None, image=str(image), max_gpus=0)
    await site.build_scheduler.test(version.environment, version.number, None, "grace")
    site.cluster.refusal = SlurmRefused("Slurm refused: Invalid user id.")
    await site.turn()
    await site.turn()
    version = await site.version()
    assert version.state is EnvironmentState.FAILED
    assert version.message.startswith("The test could not run: Slurm refused the job")
    site.cluster.refusal = None
    await site.turn()
    assert site.ids() == [], "nothing has changed"
    site.service()
    await site.turn()
    (job,) = site.ids()
    assert (await site.version()).state is EnvironmentState.TESTING
    site.passes(job)
    await site.turn()
    assert (await site.version()).state is EnvironmentState.READY


async def test_a_passed_environment_stays_while_its_new_test_could_not_run(site: Site) -> None:
    write(site, max_gpus="0")
    await site.turn()
    site.passes(site.ids()[0])
    await site.turn()
    environment = site.catalog.environments["torch"]
    await site.build_scheduler.test(environment, None, None, "grace")
    await site.turn()
    site.cluster.end(site.ids()[1], JobState.NODE_FAIL)
    await site.turn()
    await site.catalog.load()
    assert site.catalog.offers["torch"].environment is not None
    await site.build_scheduler.test(environment, None, None, "grace")
    await site.turn()
    site.say(site.ids()[2], error="The kernel does not answer.")
    await site.turn()
    await site.catalog.load()
    assert site.catalog.offers["torch"].reason == "The test failed: The kernel does not answer."


async def test_a_test_is_joined(site: Site) -> None:
    write(site, max_gpus="0")
    await site.turn()
    environment = site.catalog.environments["torch"]
    (joined,) = await site.build_scheduler.test(environment, None, None, "grace")
    assert joined.asker == "portal"
    with pytest.raises(InvalidRequest, match="cannot be tested on 'v100' GPUs"):
        await site.build_scheduler.test(environment, None, ["v100"], "grace")


async def test_an_environment_that_changes_before_its_test(site: Site) -> None:
    write(site, max_gpus="0")
    site.cluster.error = None
    await site.catalog.load()
    environment = site.catalog.environments["torch"]
    (test,) = await site.build_scheduler.test(environment, None, None, "grace")
    (site.place / "files/torch.yaml").unlink()
    site.service()
    await site.turn()
    assert (await site.store.tests.get(test.id)).state is WorkState.CANCELLED


async def test_no_node_with_such_gpus(site: Site) -> None:
    write(site, gpu_types="[t4]")
    site.cluster.nodes = tuple(
        one.model_copy(update={"state": "DOWN"}) if one.name == "gpu02" else one
        for one in site.cluster.nodes
    )
    await site.turn()
    assert len(site.ids()) == 1
    assert (await site.tests())["t4"].message == "No node with t4 GPUs is available now."


async def test_a_job_that_fills_the_disk_is_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.catalog.builds.job_monitor.MAX_LOG", 2**20)
    write(site, max_gpus="0")
    await site.turn()
    (job,) = site.ids()
    site.cluster.start(job)
    site.write(job, "x" * 2**20 + "\n" + "y" * 2**20)
    await site.turn()
    assert site.cluster.jobs[job].state is JobState.CANCELLED
    assert (await site.tests())[""].message == "The log is larger than 1 MiB."


# -- logs ------------------------------------------------------------------------------------


async def test_a_log_in_pieces(site: Site) -> None:
    build = await site.build_scheduler.build(await site.draft(), "grace")
    await site.turn()
    (job,) = site.ids()
    site.write(job, "\x1b[31mhello\x1b[0m <b>\n")
    site.say(job, step="pull", message="Copying")
    site.write(job, "half a")
    text, offset = await site.build_scheduler.log_text("build", build.id)
    assert text == "hello <b>\n"
    nonce = site.cluster.told[job][0].nonce
    assert await site.build_scheduler.log_text("build", build.id, offset) == ("", offset)
    site.write(job, " line\n" + "z" * 70000 + "\n" + "line\n" * 20000)
    whole = ""
    while True:
        text, after = await site.build_scheduler.log_text("build", build.id, offset)
        assert nonce not in text
        if after == offset:
            break
        whole, offset = whole + text, after
    assert whole.startswith("half a line\nzzz")
    assert whole.count("line\n") == 20001
    again, _ = await site.build_scheduler.log_text("build", build.id, 10**9)
    assert again.startswith("hello <b>\nhalf a line"), "a log that was cut since is read anew"
