"""The answer to "Why is my GPU waiting?" for given observations."""

from __future__ import annotations

from typing import Any

import pytest
from portal_session.waiting.answer import answer_of, folder_of
from portal_session.waiting.command import run
from portal_session.waiting.observation import Observation, Program, cpus

HOME = "/home/ada"
MOUNTS = {"/": "ext4", "/home": "nfs4", "/data": "lustre"}
SMALL = [11_000] * 30


def program(number: int = 7, name: str = "python train.py", **threads: float) -> Program:
    rates = {key: threads.pop(key) for key in ("cpu", "ready", "reads", "read") if key in threads}
    return Program(number, name, dict(threads), **rates)


def loaders(count: int, **more: float) -> list[Program]:
    return [program(7 + number, **more) for number in range(count)]


def seen(programs: list[Program], **more: Any) -> Observation:
    return Observation(**{"seconds": 5.0, "cpus": 4, "gpu": 12.0, "programs": programs, **more})


def files(folder: str, weight: float) -> dict[str, float]:
    return {f"{folder}/{number % 5}/{number}.jpg": weight / 20 for number in range(20)}


def test_a_busy_gpu_does_not_wait() -> None:
    reading = loaders(4, reading=1.0)
    answer = answer_of(seen(reading, gpu=93.0))
    assert answer.cause == "gpu"
    assert answer.sentence == "The GPU does not wait: its use was 93 % in 5 s."


def test_a_folder_of_small_files_is_named_and_worth_packing() -> None:
    programs = [*loaders(4, reading=0.95, computing=0.05, reads=1000.0, read=750_000.0)]
    observation = seen(programs, read_from=files(f"{HOME}/data/train", 3.8), sizes=SMALL)
    answer = answer_of(observation, HOME, MOUNTS)
    assert answer.sentence == (
        "GPU use: 12 %. Your 4 processes (python train.py) spent 95 % of the active time waiting "
        "for reads from ~/data/train (nfs4): 4,000 reads a second, 3.0 MB/s."
    )
    assert "(median of 30: 11 kB)" in answer.advice
    assert (answer.cause, answer.folder, answer.pack) == ("reads", f"{HOME}/data/train", True)


@pytest.mark.parametrize("sizes", [[50_000_000] * 30, [11_000] * 5])
def test_large_or_few_files_are_not_packed(sizes: list[int]) -> None:
    programs = [program(reading=1.0, reads=3.0, read=9e6)]
    observation = seen(programs, read_from=files("/data/scans", 1.0), sizes=sizes)
    answer = answer_of(observation, HOME, MOUNTS)
    assert not answer.pack
    assert "Python train.py (process 7) spent 100 %" in answer.sentence
    assert "from /data/scans (lustre): 3.0 reads a second, 9.0 MB/s." in answer.sentence
    assert answer.advice.startswith("Copy it to the node's own disk")
    local = seen(programs, read_from=files("/scratch/scans", 1.0), sizes=sizes)
    assert answer_of(local, HOME, MOUNTS).advice == ""


def test_several_folders_and_files_without_a_name() -> None:
    spread = {**files("/data/a", 0.5), **files("/scratch/b", 0.5)}
    answer = answer_of(seen([program(reading=1.0)], read_from=spread), HOME, MOUNTS)
    assert "from several folders (" in answer.sentence
    assert (answer.folder, answer.pack, answer.advice) == ("", False, "")
    mapped = answer_of(seen([program(reading=1.0)], read_from={"": 1.0}), HOME, MOUNTS)
    assert "mapped into memory" in mapped.sentence


def test_all_cpus_are_in_use() -> None:
    programs = loaders(4, computing=1.0, cpu=0.97, ready=0.35)
    answer = answer_of(seen(programs))
    assert answer.cause == "cpu"
    assert answer.sentence == (
        "GPU use: 12 %. Your 4 processes (python train.py) compute all the time: 3.9 of 4 CPUs in "
        "use, and were ready without a CPU for 35 % of that time."
    )
    assert answer.advice.startswith("Ask for more CPUs")


def test_cpus_that_others_use() -> None:
    answer = answer_of(seen([program(computing=1.0, cpu=0.4, ready=0.6)]))
    assert answer.cause == "cpu"
    assert "was ready without a CPU for 60 % of the time, with 0.4 of 4 CPUs" in answer.sentence


def test_a_single_thread_is_the_narrow_part() -> None:
    answer = answer_of(seen([program(computing=0.97, cpu=0.97, ready=0.0)], cpus=8))
    assert answer.cause == "thread"
    assert answer.sentence == (
        "GPU use: 12 %. A single thread of python train.py (process 7) computed for 97 % of the "
        "time, while 7 of 8 CPUs were free."
    )
    assert "num_workers=7" in answer.advice


def test_a_session_with_one_cpu_that_computes() -> None:
    answer = answer_of(seen([program(computing=1.0, cpu=0.99, ready=0.01)], cpus=1))
    assert answer.cause == "cpu"
    assert "1 of 1 CPU in use." in answer.sentence


def test_the_network_is_named_with_its_peer() -> None:
    peers = {"10.0.0.5:443": 1.8, "10.0.0.6:443": 0.1}
    answer = answer_of(seen(loaders(2, receiving=0.95), peers=peers, received=2_100_000.0))
    assert answer.cause == "network"
    assert "connections to 10.0.0.5:443 and 1 more (2.1 MB/s received)." in answer.sentence


def test_writes_are_named() -> None:
    observation = seen([program(writing=1.0)], written_to={f"{HOME}/runs/a/model.pt": 1.0})
    answer = answer_of(observation, HOME, MOUNTS)
    assert answer.cause == "writes"
    assert "waiting for writes to ~/runs/a (nfs4)." in answer.sentence


def test_nothing_is_said_without_evidence() -> None:
    idle = answer_of(seen([program(computing=0.02)], gpu=None))
    assert idle.cause == "idle"
    assert idle.sentence.startswith("In 5 s, the programs of this session did next to nothing")
    mixed = seen([program(computing=0.5, reading=0.45, receiving=0.05, cpu=0.5)])
    answer = answer_of(mixed)
    assert (answer.cause, answer.advice, answer.pack) == ("unclear", "", False)
    assert "50 % computing, 45 % waiting for reads, 5 % waiting for the network" in answer.sentence
    half_read = [program(reading=0.5, computing=0.45)]
    slow = seen(half_read, read_from=files("/data/a", 0.5), sizes=SMALL)
    assert (answer_of(slow).cause, answer_of(slow).pack) == ("unclear", False)
    half = answer_of(seen(loaders(2, computing=1.0, cpu=1.0, ready=0.0), cpus=8))
    assert half.cause == "unclear"
    assert half.sentence.endswith("2 of 8 CPUs were in use.")


@pytest.mark.parametrize(
    ("paths", "folder"),
    [
        ({"/data/a/1": 1.0, "/data/a/b/2": 1.0}, "/data/a"),
        ({"/data/a/b/1": 9.0, "/data/a/c/2": 1.0}, "/data/a/b"),
        ({"/data/a/1": 1.0, "/data/b/2": 1.0}, ""),  # "/data" is of everybody
        ({"/1": 1.0}, ""),
        ({"": 1.0}, ""),
        ({"": 3.0, "/data/a/1": 7.0}, ""),
        ({}, ""),
    ],
)
def test_the_folder_is_the_deepest_with_most_of_the_time(paths: Any, folder: str) -> None:
    assert folder_of(paths)[0] == folder


def test_the_cpus_are_those_of_the_job() -> None:
    assert cpus({"SLURM_CPUS_ON_NODE": "1"}) == 1
    assert cpus({"SLURM_CPUS_ON_NODE": "4096"}) == cpus({}) == cpus({"SLURM_CPUS_ON_NODE": "0"})


class Broker:
    """The session's broker with a given answer."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def ask(self, *asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        return self.answer


def test_the_command_prints_the_answer() -> None:
    broker = Broker({"sentence": "Slow.", "advice": "Pack.", "folder": "/d/my data", "pack": True})
    told: list[str] = []
    environ = {"PORTAL_KERNEL_BROKER": "/run/b"}
    said = run(["--seconds", "3"], environ, told.append, lambda path: broker)
    assert said == "Slow.\nPack.\nportal-pack '/d/my data'"
    assert broker.asked == [("POST", "/waiting", {"seconds": 3})]
    assert told == ["Looking at the programs of this session for 3 seconds …"]
    with pytest.raises(SystemExit):
        run(["--seconds", "500"], environ, told.append)
