"""The launch form: what it offers, and what a submitted one becomes."""

from __future__ import annotations

import time
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from clusters import gpu_node, job, waiting
from stepping_clock import SteppingClock

from portal.catalog.offers.preferences import Preferences
from portal.catalog.offers.tile import tile_of
from portal.errors import InvalidRequest
from portal.launch.availability import availability
from portal.launch.request import options_from_form, options_from_link
from portal.models.catalog.environment import Environment, OfferedEnvironment
from portal.models.cluster.cluster import (
    Association,
    ClusterSnapshot,
    GpuPool,
    JobState,
    Partition,
    Qos,
    Reservation,
)
from portal.models.person import Person
from portal.models.session.resources import Resources
from portal.slurm.parse import node_state
from spawners.form import words
from spawners.form.form import LaunchForm
from spawners.host.storage import Storage, StorageArea

ADA = Person(name="ada", groups=("gpu-users",))
GIB = 1024**3


def snapshot(**fields: object) -> ClusterSnapshot:
    """Four nodes with 4 v100 each (5 used), two with 2 t4, cpu01."""
    nodes = [
        gpu_node("gpu01", "v100", 4, used=4, cpus_allocated=8),
        gpu_node("gpu02", "v100", 4, used=1, cpus_allocated=2),
        gpu_node("gpu03", "v100", 4),
        gpu_node("gpu04", "v100", 4),
        gpu_node("gpu05", "t4", 2, cpus=8),
        gpu_node("gpu06", "t4", 2, cpus=8),
        gpu_node("cpu01"),
    ]
    gpu_nodes = tuple(n.name for n in nodes if n.gpus)
    usual: dict[str, object] = {
        "taken_at": time.time(),
        "nodes": {n.name: n for n in nodes},
        "partitions": {
            "cpu": Partition(name="cpu", nodes=("cpu01",), max_time=4 * 86400),
            "gpu": Partition(name="gpu", default=True, nodes=gpu_nodes, max_time=86400),
        },
    }
    return ClusterSnapshot(**{**usual, **fields})


def replace_node(whole: ClusterSnapshot, name: str, **fields: object) -> ClusterSnapshot:
    changed = whole.nodes[name].model_copy(update=fields)
    return whole.model_copy(update={"nodes": {**whole.nodes, name: changed}})


def environment(name: str = "pytorch", **fields: object) -> Environment:
    return Environment(
        **{"name": name, "title": name.title(), "kind": "container", "image": "/i.sif", **fields}
    )


TWO = [environment("pytorch"), environment("plain", kind="venv", path="/venv", image=None)]
ROWS = (
    Association(user="ada", account="research", qos=("normal", "short"), is_default_account=True),
)


def both(whole: ClusterSnapshot):
    return availability(whole, ["gpu", "cpu"])


class TestAvailability:
    def test_counts_free_by_type_and_partition(self):
        supply = both(snapshot())
        assert (supply.gpus["v100"].free, supply.gpus["v100"].total) == (11, 16)
        assert (supply.gpus["t4"].free, supply.gpus["t4"].total) == (4, 4)
        assert supply.gpus["v100"].free_on_one_node == 4
        assert supply.partitions["gpu"].gpus_free == 15
        assert supply.partitions["gpu"].gpu_types == {"t4": 2, "v100": 4}
        assert (supply.partitions["cpu"].cpus_free, supply.partitions["cpu"].gpus) == (16, 0)
        assert (supply.cpus_free, supply.cpus) == (86, 96)
        assert supply.partitions["gpu"].cpus_per_node == 16
        few = snapshot().partitions["gpu"].model_copy(update={"max_cpus_per_node": 4})
        whole = snapshot(partitions={"gpu": few})
        assert availability(whole, ["gpu"]).partitions["gpu"].cpus_per_node == 4

    @pytest.mark.parametrize("state", ["DOWN*", "IDLE+DRAIN", "IDLE*", "MIXED+MAINT", "UNKNOWN"])
    def test_a_node_that_takes_no_jobs_has_nothing_free(self, state):
        gpu = both(replace_node(snapshot(), "gpu03", state=state)).gpus["v100"]
        assert (gpu.free, gpu.total, gpu.out_of_service) == (7, 16, 4)

    @pytest.mark.parametrize("state", ["IDLE~", "idle#*", "IDLE+CLOUD+POWERING_DOWN", "mixed!"])
    def test_a_node_that_is_switched_on_when_needed_is_not_out_of_service(self, state):
        asleep = replace_node(snapshot(), "gpu03", state=node_state(state))
        gpu = both(asleep).gpus["v100"]
        assert (gpu.free, gpu.total, gpu.asleep, gpu.out_of_service) == (7, 16, 4, 0)
        shown = view(asleep.model_copy(update={"resume_seconds": 600}))
        (tile,) = [tile for tile in shown.gpu_tiles if tile.type == "v100"]
        assert tile.asleep == "4 switched on when needed, about 10 min"
        assert shown.cpus_text.endswith(" CPUs free (16 switched on when needed, about 10 min)")
        (note,) = [choice.note for choice in choices(shown, "partition") if choice.value == "gpu"]
        assert "more is switched on when needed" in note

    def test_a_node_without_free_cpus_or_memory_has_no_free_gpus(self):
        full = replace_node(snapshot(), "gpu03", cpus_allocated=16, state="MIXED")
        assert both(full).gpus["v100"].free == 7
        full = replace_node(snapshot(), "gpu03", memory_allocated=64000, state="MIXED")
        assert both(full).gpus["v100"].free == 7

    def test_reserved_nodes_are_not_free_while_the_reservation_is_active(self):
        def reserved(start: float, end: float) -> ClusterSnapshot:
            r = Reservation(name="course", start_time=start, end_time=end, nodes=("gpu03", "gpu04"))
            return snapshot(reservations={"course": r})

        now = time.time()
        assert both(reserved(now - 60, now + 60)).gpus["v100"].free == 3
        assert both(reserved(now + 60, now + 120)).gpus["v100"].free == 11
        assert both(reserved(now - 120, now - 60)).gpus["v100"].free == 11

    def test_a_node_in_two_partitions_counts_once(self):
        whole = snapshot()
        again = Partition(name="all", nodes=tuple(whole.nodes))
        whole = whole.model_copy(update={"partitions": {**whole.partitions, "all": again}})
        supply = availability(whole, ["gpu", "all", "never-heard-of"])
        assert supply.gpus["v100"].total == 16
        assert set(supply.partitions) == {"gpu", "all"}

    def test_waiting_jobs_are_counted_by_partition(self):
        jobs = {"1": waiting("1"), "2": job("2"), "3": waiting("3", partition="gpu,cpu")}
        supply = both(snapshot(jobs=jobs))
        assert (supply.partitions["gpu"].waiting, supply.partitions["cpu"].waiting) == (2, 1)


def view(whole=None, environments=None, associations=ROWS, form=None, **fields):
    whole = snapshot() if whole is None else whole
    environments = TWO if environments is None else environments
    return (form or LaunchForm()).view(whole, environments, associations, ADA, **fields)


def choices(shown, name):
    """Of a field under "More"; none where it is not asked for."""
    return next((field.choices for field in shown.folded if field.name == name), ())


def typed(shown, name):
    return next(field.value for field in shown.folded if field.name == name)


class TestView:
    def test_offers_what_the_cluster_has(self):
        shown = view()
        assert [c.name for c in shown.cards] == ["plain", "pytorch"]
        assert [c.value for c in shown.gpu_counts] == ["0", "1", "2", "3", "4"]
        assert [(t.type, t.free, t.total) for t in shown.gpu_tiles] == [
            ("", 15, 20),
            ("t4", 4, 4),
            ("v100", 11, 16),
        ]
        assert [p.value for p in choices(shown, "partition")] == ["", "gpu", "cpu"]
        assert "15 of 20 GPUs free" in choices(shown, "partition")[1].note
        assert shown.can_start

    def test_what_is_liked_and_used_last_stands_first(self):
        several = [environment(name) for name in ("a", "b", "c", "d", "e")]
        preferences = Preferences(frozenset({"d", "gone"}), {"c": 20.0, "e": 10.0, "d": 5.0})
        shown = view(environments=several, preferences=preferences)
        assert [c.name for c in shown.cards] == ["d", "c", "e", "a", "b"]
        assert [c.favourite for c in shown.cards] == [True, False, False, False, False]
        assert [bool(c.used) for c in shown.cards] == [True, True, True, False, False]
        assert [c.name for c in shown.cards if c.selected] == ["d"]
        last = {"environment": "a"}
        shown = view(environments=several, preferences=preferences, last=last)
        assert [c.name for c in shown.cards if c.selected] == ["a"]

    def test_parts_of_gpus_are_types_beside_the_whole_ones(self):
        shards = GpuPool(type="shard.t4", count=8, used=5, each=4)
        held = GpuPool(type="t4", count=2, used=2, used_indexes=(0, 1), shared_indexes=(0, 1))
        nodes = {"gpu01": gpu_node("gpu01").altered(gpus=(held,), shares=(shards,))}
        slices = gpu_node("gpu02", "a100_1g.10gb", 7, used=2)
        gpu = Partition(name="gpu", default=True, nodes=("gpu01", "gpu02"))
        form = LaunchForm(gpu_types={"t4": {"title": "T4", "memory": "16 GB", "simulated": True}})

        def shown(*more, **last):
            there = nodes | {node.name: node for node in more}
            return view(snapshot(nodes=there, partitions={"gpu": gpu}), form=form, last=last)

        one = shown()
        tiles = [
            (tile.type, tile.title, tile.about, tile.free, tile.total) for tile in one.gpu_tiles
        ]
        assert tiles == [
            ("t4", "T4", "16 GB", 0, 2),
            ("shard.t4", "shard of T4", "1/4 of a GPU, shared with other jobs", 3, 8),
        ]
        assert [tile.type for tile in one.gpu_tiles if tile.selected] == ["t4"]
        assert [tile.simulated for tile in one.gpu_tiles] == [True, True]
        assert one.gpu_most == 4  # as many shards as one GPU has
        assert [tile.selected for tile in shown(gpus=2, gpu_type="shard.t4").gpu_tiles] == [
            False,
            True,
        ]
        two = shown(slices).gpu_tiles
        assert [(tile.type, tile.free, tile.total) for tile in two] == [
            ("", 5, 9),  # "any" is a whole GPU or a slice, never a share
            ("a100_1g.10gb", 5, 7),
            ("t4", 0, 2),
            ("shard.t4", 3, 8),
        ]
        assert two[1].about == "MIG slice, 1/7 of a GPU, 10 GB"
        assert [tile.memory for tile in two] == [0, 10, 16, 0]
        assert shown(slices).gpu_memories == (10, 16)
        assert shown().gpu_memories == ()  # without slices, nothing is smaller
        assert shown().client["gpus"]["shard.t4"]["each"] == 4

    def test_few_environments_are_not_searched(self):
        few = [environment(f"e{n}", tags=("x", f"t{n % 3}")) for n in range(6)]
        shown = view(environments=few)
        assert shown.tags == ()
        assert "launch-search" not in LaunchForm().render(shown)
        shown = view(environments=[*few, environment("e6", tags=("t1",))])
        assert shown.tags == ("t0", "t1", "t2", "x")
        assert 'id="launch-search"' in LaunchForm().render(shown)

    def test_historical_environments_come_after_a_click_unless_they_are_yours(self):
        old = [environment(f"old{n}", tags=("historical",), order=900) for n in range(3)]
        shown = view(
            environments=[*(environment(f"e{n}") for n in range(5)), *old],
            preferences=Preferences(frozenset({"old1"}), {"old2": 1.7e9}),
        )
        html = LaunchForm().render(shown)
        assert [card.name for card in shown.cards if card.historical] == ["old1", "old2", "old0"]
        assert html.count("data-later") == 1
        assert "data-later" in html.partition('value="old0"')[0].rpartition('"portal-card"')[2]

    def test_a_card_tells_what_to_know_before(self):
        old = environment(
            "old",
            state="deprecated",
            message="Take <the new> one.",
            description="For **all**.\n\n<script>x</script>",
        )
        tiles = {"old": tile_of(old, {"torch": "2.1", "cuda": "12.4"}, 1.7e9, preview=True)}
        html = LaunchForm().render(
            view(environments=[old, *TWO], tiles=lambda e: tiles.get(e.name) or tile_of(e))
        )
        assert "Deprecated. Take &lt;the new&gt; one." in html
        assert "PyTorch 2.1, CUDA 12.4" in html
        assert "tested 14 Nov 2023" in html or "tested 15 Nov 2023" in html
        assert "visible only to admins" in html
        assert "For all." in html and "<script>x" not in html

    def test_why_a_gpu_type_is_refused_reaches_the_page(self):
        narrowed = OfferedEnvironment(
            **environment(gpu_types=("v100",)).model_dump(), refusals={"t4": "It failed on t4."}
        )
        client = view(environments=[narrowed]).client["environments"]["pytorch"]
        assert client["refusals"] == {"t4": "It failed on t4."}

    def test_a_choice_with_one_value_is_not_asked(self):
        shown = view(
            snapshot(partitions={"gpu": Partition(name="gpu", nodes=("gpu05",), max_time=3600)}),
            [environment(default={"time": "1:00:00"})],
            (Association(user="ada", account="research", qos=("normal",)),),
            form=LaunchForm(times=["1:00:00"]),
        )
        for name in ("partition", "account", "qos", "reservation"):
            assert choices(shown, name) == ()
        assert len(shown.gpu_tiles) == 1
        assert [field.name for field in shown.folded] == ["cpus", "memory"]
        html = LaunchForm().render(shown)
        names = [(n, t) for n, t in inputs(html) if n]
        assert ("environment", "hidden") in names and ("time", "hidden") in names
        asked = {n for n, t in names if t != "hidden"}
        assert asked == {"gpus", "cpus", "memory"}

    def test_a_cluster_without_gpus_does_not_ask_for_any(self):
        whole = snapshot(partitions={"cpu": Partition(name="cpu", nodes=("cpu01",))})
        shown = view(whole)
        assert shown.gpu_counts == shown.gpu_tiles == ()
        assert not any(n in ("gpus", "gpu_type") for n, _ in inputs(LaunchForm().render(shown)))

    def test_partitions_of_other_accounts_are_not_offered(self):
        whole = snapshot()
        gpu = whole.partitions["gpu"].model_copy(update={"allow_accounts": ("dl101",)})
        shown = view(whole.model_copy(update={"partitions": {**whole.partitions, "gpu": gpu}}))
        assert shown.gpu_counts == ()
        assert "gpu" not in shown.client["partitions"]

    def test_the_longest_time_is_what_partitions_and_accounts_allow(self):
        assert view().times[-1].value == "48:00:00"  # the cpu partition allows four days
        limited = (ROWS[0].model_copy(update={"max_wall": 4 * 3600}),)
        shown = view(associations=limited)
        assert shown.times[-1].value == "4:00:00"
        assert [c.value for c in shown.times if c.selected] == ["2:00:00"]

    def test_no_time_is_longer_than_a_qos_of_the_person_allows(self):
        qos = {
            "normal": Qos(name="normal", max_wall=8 * 3600),
            "short": Qos(name="short", max_wall=3600),
        }
        whole = snapshot(qos=qos)
        shown = view(whole)
        assert shown.times[-1].value == "8:00:00"
        seconds = {choice.value: choice.data.get("seconds") for choice in choices(shown, "qos")}
        assert seconds == {"": "28800", "normal": "28800", "short": "3600"}
        only = (ROWS[0].model_copy(update={"qos": ("short",)}),)
        assert [c.value for c in view(whole, associations=only).times] == ["0:30:00", "1:00:00"]
        assert view(snapshot(qos={"short": qos["short"]})).times[-1].value == "48:00:00"

    def test_an_accounts_gpu_limit_bounds_the_count(self):
        limited = (ROWS[0].model_copy(update={"max_gpus_per_job": 2}),)
        assert view(associations=limited).gpu_most == 2
        two = (*limited, ROWS[0].model_copy(update={"account": "rich"}))
        assert view(associations=two).gpu_most == 4
        assert [c.value for c in choices(view(associations=two), "account")] == [
            "",
            "research",
            "rich",
        ]

    def test_the_last_choice_is_preselected(self):
        last = {
            "environment": "pytorch",
            "gpus": 2,
            "gpu_type": "v100",
            "cpus": 6,
            "memory": "9G",
            "time": "3:00:00",
            "partition": "gpu",
            "qos": "short",
            "nodes": 1,
        }
        shown = view(last=last, defaults=Resources(cpus=2, memory="9G"))
        assert [c.name for c in shown.cards if c.selected] == ["pytorch"]
        assert [c.value for c in shown.gpu_counts if c.selected] == ["2"]
        assert [t.type for t in shown.gpu_tiles if t.selected] == ["v100"]
        assert [c.value for c in shown.times if c.selected] == ["3:00:00"]
        assert [c.value for c in choices(shown, "qos") if c.selected] == ["short"]
        assert (typed(shown, "cpus"), typed(shown, "memory")) == (
            "6",
            "",
        )  # 9G is the default: not a choice
        # The partition that the launch had found by itself does not stick to the next choice.
        assert [c.value for c in choices(shown, "partition") if c.selected] == [""]
        assert shown.more  # CPUs and QOS were chosen: they are not hidden
        assert not view(last={"environment": "pytorch", "gpus": 2, "nodes": 1}).more
        assert view(last={"nodes": 2}).more
        shown = view(last={**last, "gpus": 0})
        assert [c.value for c in choices(shown, "partition") if c.selected] == ["gpu"]

    def test_a_link_counts_as_far_as_it_fits(self):
        last = {"environment": "pytorch", "gpus": 2, "time": "1:00:00"}
        shown = view(last=last, linked={"gpus": 9, "time": "900:00:00", "memory": "9G"})
        assert [c.value for c in shown.gpu_counts if c.selected] == ["0"]
        assert [c.value for c in shown.times if c.selected] == ["2:00:00"]
        assert typed(shown, "memory") == "9G"
        shown = view(last=last, linked={"gpus": 3, "time": "3:00:00"})
        assert [c.value for c in shown.gpu_counts if c.selected] == ["3"]
        assert [c.value for c in shown.times if c.selected] == ["3:00:00"]

    @pytest.mark.parametrize(
        "last",
        [
            {"environment": "gone", "gpus": 99, "gpu_type": "h100", "time": "900:00:00"},
            {"gpus": "2; rm -rf /", "environment": ["x"]},
            {"nonsense": True},
            {"time": "soon"},
        ],
    )
    def test_a_last_choice_that_is_gone_or_odd_does_no_harm(self, last):
        shown = view(last=last)
        assert sum(c.selected for c in shown.cards) == 1
        assert sum(c.selected for c in shown.gpu_counts) == 1
        assert sum(t.selected for t in shown.gpu_tiles) == 1
        assert sum(c.selected for c in shown.times) == 1

    def test_reservations_of_this_person(self):
        now = time.time()

        def reservation(name: str, **who: object) -> Reservation:
            return Reservation(name=name, start_time=now - 9, end_time=now + 99, **who)

        mine = reservation("mine", users=("ada",))
        ours = reservation("ours", accounts=("research",))
        theirs = reservation("theirs", users=("grace",))
        shown = view(snapshot(reservations={r.name: r for r in (mine, ours, theirs)}))
        assert [c.value for c in choices(shown, "reservation")] == ["", "mine", "ours"]

    def test_node_features_are_chosen_from_those_of_ones_partitions(self):
        assert "constraint" not in [field.name for field in view().folded]
        whole = replace_node(snapshot(), "gpu01", features=("nvlink", "ssd"))
        whole = replace_node(whole, "cpu01", features=("ssd",))
        last = {"environment": "pytorch", "gpus": 1, "constraint": "nvlink"}
        shown = view(whole, last=last)
        offered = {c.value: c.data.get("partitions") for c in choices(shown, "constraint")}
        assert offered == {"": None, "nvlink": "gpu", "ssd": "gpu cpu"}
        assert [c.value for c in choices(shown, "constraint") if c.selected] == ["nvlink"]
        assert shown.more
        html = LaunchForm().render(shown)
        assert 'name="constraint"' in html and 'data-partitions="gpu cpu"' in html
        assert ">More: CPUs, memory, partition, QOS, nodes, node features</summary>" in html
        assert {"name": "constraint", "folded": True} in shown.client["fields"]

    def test_old_numbers_say_how_old_they_are(self):
        whole = snapshot(taken_at=time.time() - 200, error="Unable to contact slurmctld.")
        shown = view(whole)
        assert "3 min old" in shown.stale and "Unable to contact" in shown.stale
        assert shown.can_start
        assert view().stale == ""

    @pytest.mark.parametrize("step", [3600.0, -3600.0])
    def test_numbers_are_as_old_as_they_are_when_the_clock_is_set(self, monkeypatch, step):
        clock, asked = SteppingClock(monkeypatch), time.monotonic()
        fresh = snapshot(taken_at=time.time(), asked_at=asked)
        old = snapshot(taken_at=time.time() - 200, asked_at=asked - 200, error="Slurm is away.")
        clock.step(step)
        assert view(fresh).stale == ""
        assert "3 min old" in view(old).stale
        assert words.outdated(old, 30.0, "this is").startswith("Slurm does not answer: this is 3")

    def test_without_any_snapshot_the_page_says_so(self):
        shown = LaunchForm().view(None, TWO, None, ADA)
        assert not shown.can_start
        assert "Slurm does not answer" in shown.problems[0]
        assert "Slurm does not answer" in LaunchForm().render(shown)

    def test_problems_disable_the_start_and_say_whom_to_ask(self):
        form = LaunchForm(contact="hpc@example.org", minimum_free=100)
        home = StorageArea("Home", "/home/ada", missing=True, required=True)
        (text,) = form.problems(ROWS, ADA, [home])
        assert "/home/ada" in text and "hpc@example.org" in text
        full = StorageArea("Home", "/h", free_bytes=99 * 1024**2, total_bytes=GIB, required=True)
        (text,) = form.problems(ROWS, ADA, [full])
        assert "99 MB" in text
        (text,) = form.problems((), ADA)
        assert "Slurm account" in text and "hpc@example.org" in text
        assert form.problems(None, ADA) == []
        assert form.problems(ROWS, ADA, [StorageArea("Data", "/data", missing=True)]) == []
        html = form.render(view(form=form, problems=[text]))
        assert "disabled" in start_button(html)
        assert "disabled" not in start_button(form.render(view(form=form)))

    def test_no_environment_is_said(self):
        shown = view(environments=[])
        assert not shown.can_start and "No environment" in shown.problems[0]

    def test_simulated_gpus_are_labelled(self):
        form = LaunchForm(simulated_gpus=True)
        assert form.render(view(form=form)).count("simulated</span>") == 3
        assert "simulated</span>" not in LaunchForm().render(view())
        shown = view(form=form)
        assert "15 of 20 simulated GPUs free" in choices(shown, "partition")[1].note
        assert all(gpu["simulated"] for gpu in shown.client["gpus"].values())

    def test_one_simulated_type_does_not_label_the_others(self):
        form = LaunchForm(gpu_types={"t4": {"simulated": True}})
        shown = view(form=form)
        assert {tile.type: tile.simulated for tile in shown.gpu_tiles} == {
            "": False,
            "t4": True,
            "v100": False,
        }
        assert "15 of 20 GPUs free" in choices(shown, "partition")[1].note
        assert (form.simulates("t4"), form.simulates("v100"), form.simulates()) == (
            True,
            False,
            False,
        )

    def test_hostile_titles_stay_text(self):
        evil = "</script><script>alert(1)</script>\"'<img src=x onerror=alert(2)>"
        hostile = environment("evil", title=evil, description=evil, tags=("<b>tag",))
        area = StorageArea(evil[:20], evil, free_bytes=1, total_bytes=2)
        form = LaunchForm(gpu_types={"v100": {"memory": evil}}, contact=evil)
        html = form.render(
            view(None, [hostile, TWO[0]], form=form, storage=[area], problems=[evil])
        )
        tags = Tags()
        tags.feed(html)
        assert "img" not in tags.names and "b" not in tags.names
        assert tags.names.count("script") == 1
        assert "alert(1)" in html  # it is shown, as text


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.inputs: list[tuple[str, str]] = []

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        if tag in ("input", "select"):
            found = dict(attrs)
            self.inputs.append((found.get("name") or "", found.get("type") or tag))


def inputs(html: str) -> list[tuple[str, str]]:
    tags = Tags()
    tags.feed(html)
    return tags.inputs


def start_button(html: str) -> str:
    return next(part for part in html.split("<button") if 'id="start"' in part).split(">")[0]


class TestAnswers:
    def test_numbers_become_numbers_and_blanks_are_left_out(self):
        data = {
            "environment": ["pytorch"],
            "gpus": ["2"],
            "gpu_type": ["v100"],
            "cpus": [""],
            "memory": [" 16 gb "],
            "time": ["2:00:00"],
            "partition": [""],
            "nodes": ["1"],
        }
        assert options_from_form(data) == {
            "environment": "pytorch",
            "gpus": 2,
            "gpu_type": "v100",
            "memory": "16G",
            "time": "2:00:00",
            "nodes": 1,
        }

    def test_unknown_keys_and_files_are_left_out(self):
        data = {"prologue": ["id"], "exec_prefix": ["x"], "_xsrf": ["2|"], "a_file": [{"b": b"c"}]}
        assert options_from_form(data) == {}

    def test_a_cpu_session_has_no_gpu_type(self):
        assert options_from_form({"gpus": ["0"], "gpu_type": ["v100"]}) == {"gpus": 0}

    @pytest.mark.parametrize("field", ["gpus", "cpus", "nodes"])
    @pytest.mark.parametrize("text", ["-1", "1e3", "two", "٣", "1_000", "1.5", "0x1", "9" * 400])
    def test_what_is_no_number_is_named(self, field, text):
        with pytest.raises(InvalidRequest) as caught:
            options_from_form({field: [text]})
        assert caught.value.field == field and f"'{field}'" in caught.value.message

    @pytest.mark.parametrize("field", ["environment", "memory", "partition", "reservation"])
    @pytest.mark.parametrize(
        "values",
        [["a\nb"], ["a\x00b"], ["x" * 300], ["a", "b"], [None], [{"a": 1}], [b"a"], 7, {"a": "b"}],
    )
    def test_odd_values_are_refused_by_name(self, field, values):
        with pytest.raises(InvalidRequest) as caught:
            options_from_form({field: values})
        assert caught.value.field == field
        assert caught.value.message.isprintable() and len(caught.value.message) < 200

    def test_each_option_of_a_link_is_judged_alone(self):
        link = {
            "gpus": ["2"],
            "gpu_type": ["v100"],
            "cpus": ["some"],
            "memory": ["9G"],
            "time": ["1:00:00", "2:00:00"],
            "partition": ["$(id)"],
            "colour": ["red"],
        }
        assert options_from_link(link) == {"gpus": 2, "gpu_type": "v100", "memory": "9G"}
        assert options_from_link({"gpu_type": ["v100"]}) == {}

    def test_shell_syntax_passes_as_text_for_the_policy_to_refuse(self):
        assert options_from_form({"partition": ["$(id)"]}) == {"partition": "$(id)"}


class TestWords:
    def test_sizes_and_times(self):
        assert words.size(0) == "0 bytes"
        assert words.size(1536 * 1024**3) == "1.5 TB"
        assert words.size(32 * GIB) == "32 GB"
        assert words.memory("4096M") == "4 GB"
        assert words.duration(7200) == "2 h"
        assert words.duration(129600) == "1 d 12 h"
        assert words.time_limit("0:30:00") == "30 min"
        assert [words.ordinal(n) for n in (1, 2, 3, 4, 11, 22, 113)] == [
            "1st",
            "2nd",
            "3rd",
            "4th",
            "11th",
            "22nd",
            "113th",
        ]

    def test_resources_in_one_line(self):
        options = {"gpus": 2, "gpu_type": "v100", "cpus": 8, "memory": "32G", "time": "2:00:00"}
        assert (
            words.resources(None, options) == "2 \N{MULTIPLICATION SIGN} v100, 8 CPUs, 32 GB, 2 h"
        )
        form = LaunchForm(gpu_types={"v100": {"title": "Tesla V100"}, "t4": {}})
        spawner = SimpleNamespace(shared=SimpleNamespace(form=form))
        assert words.resources(spawner, options).startswith("2 \N{MULTIPLICATION SIGN} Tesla V100,")
        assert words.resources(spawner, {"gpus": 1, "gpu_type": "t4"}).endswith(" t4")
        assert words.resources(None, {"gpus": "odd", "memory": 7, "time": None}) == "no GPU, 7"
        assert words.resources(None, None) == "no GPU"

    def test_a_pending_job(self):
        now = time.mktime((2025, 1, 1, 10, 0, 0, 0, 1, -1))
        first = waiting("7", reason="Resources", start_time=now + 42 * 60)
        assert (
            words.pending(first, 3, now)
            == "waiting for resources: 3rd in the queue, expected 10:42"
        )
        odd = first.model_copy(update={"reason": "NewReason", "start_time": None})
        assert "NewReason" in words.pending(odd)

    def test_every_state_has_words(self):
        for state in JobState:
            text = words.state(state)
            assert text.startswith("ended") == state.ended
            assert ("no longer knows" in text) == (state is JobState.UNKNOWN)


class TestStorage:
    async def test_asks_the_file_system(self, tmp_path):
        storage = Storage(
            timeout=60,
            areas=[
                {"title": "Home", "path": "{home}", "required": True},
                {"title": "Scratch", "path": str(tmp_path / "{username}")},
                {"title": "Gone", "path": str(tmp_path / "gone")},
            ],
        )
        (tmp_path / "ada").mkdir()
        home, scratch = await storage.query_areas("ada", str(tmp_path / "no-home"))
        assert home.missing and home.required
        assert scratch.path == str(tmp_path / "ada")
        assert 0 < scratch.free_bytes <= scratch.total_bytes

    async def test_paths_in_the_home_are_shown_as_people_write_them(self, tmp_path):
        home = tmp_path / "ada"
        (home / "data").mkdir(parents=True)
        (tmp_path / "ada-scratch").mkdir()
        paths = ["{home}", "{home}/data", str(tmp_path / "{username}-scratch")]
        storage = Storage(areas=[{"title": "x", "path": path} for path in paths])
        areas = await storage.query_areas("ada", str(home))
        shown = [area.path for area in view(storage=areas).areas]
        assert shown == ["~", "~/data", str(tmp_path / "ada-scratch")]

    async def test_a_hanging_file_system_does_not_hold_up_the_page(self, monkeypatch):
        import threading

        from spawners.host import storage as module

        stuck = threading.Event()
        calls = []

        def hang(title, path, required=False):
            calls.append(path)
            stuck.wait(20)
            return StorageArea(title, path, free_bytes=1, total_bytes=2)

        monkeypatch.setattr(module, "query_file_system", hang)
        storage = Storage(areas=[{"title": "Data", "path": "/data"}], timeout=0.05)
        try:
            for _ in range(3):
                (area,) = await storage.query_areas("ada", "/home/ada")
                assert not area.answers
            assert calls == ["/data"]  # one stuck thread, not one for each visit
            shown = view(storage=[area])
            assert shown.areas[0].text == "does not answer"
        finally:
            stuck.set()
