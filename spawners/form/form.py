"""Form of the launch page.

``LaunchForm.view`` is pure: a snapshot and a person in, a view model out; ``render`` turns it
into HTML. A submitted form is parsed in portal/launch/request.py.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import jinja2
from traitlets import Bool, Dict, Integer, List, Unicode
from traitlets.config import LoggingConfigurable

from portal.catalog.offers.preferences import NO_PREFERENCES, Preferences, ordered
from portal.catalog.offers.tile import Tile, common_tags, tile_of
from portal.gpus.titles import gpu_titles
from portal.launch.availability import Availability, availability
from portal.launch.choices.field_choices import Choice, Facts, folded_fields
from portal.launch.partitions import allowed_partitions, choose_partition
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Association, ClusterSnapshot
from portal.models.cluster.gpu_share import part_words, share_of, slice_of, title_of
from portal.models.person import Person
from portal.models.session.resources import Resources, time_text
from portal.models.space import Space
from portal.paths import data_path
from portal.setting import setting
from portal.slurm.reasons import waking_words

from ..host.storage import StorageArea
from . import choices, words
from . import defaults as last_choice
from .view import GpuTile, LaunchView

_USUAL_TIME = 7200  # seconds, without any other default


class LaunchForm(LoggingConfigurable):
    """Settings of the launch page, and the page's form."""

    gpu_types = setting(
        Dict(),
        """Descriptions of GPU types, by Slurm's name of the type: `title`, `memory`,
        `interconnect`, `simulated`. Other types are shown with Slurm's name.""",
        """c.LaunchForm.gpu_types = {
            "v100": {"title": "V100", "memory": "32 GB", "interconnect": "NVLink"},
            "t4": {"title": "T4", "memory": "16 GB", "interconnect": "PCIe"},
        }""",
    )
    simulated_gpus = setting(
        Bool(False),
        "Label every GPU as simulated; the demo sets it on machines without GPUs.",
        "c.LaunchForm.simulated_gpus = True",
    )
    times = setting(
        List(
            Unicode(),
            default_value=[
                "0:30:00",
                "1:00:00",
                "2:00:00",
                "4:00:00",
                "8:00:00",
                "12:00:00",
                "24:00:00",
                "48:00:00",
                "168:00:00",
            ],
        ),
        "Time limits to choose from. Those above the user's limit are hidden.",
        'c.LaunchForm.times = ["1:00:00", "8:00:00"]',
    )
    contact = setting(
        Unicode("an administrator of this portal"),
        "Contact that pages name if something is missing.",
        'c.LaunchForm.contact = "hpc-support@example.org"',
    )
    stale_after = 60.0  # seconds until the page shows the age of its numbers, without an error too
    # Free MiB that a required folder (the home) needs for a session to start.
    minimum_free = Integer(64)

    @cached_property
    def _pages(self) -> jinja2.Environment:
        # Its own environment: the Hub hands the form to its page as finished HTML.
        loader = jinja2.FileSystemLoader(data_path("templates"))
        return jinja2.Environment(
            loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
        )

    def title_of(self, gpu_type: str) -> str:
        """Return the name of a GPU type (Slurm's name) for people."""
        return title_of(gpu_type, gpu_titles(self.gpu_types))

    def simulates(self, gpu_type: str = "") -> bool:
        """Return True if GPUs of this type (Slurm's name; "": any) are labelled as simulated."""
        share = share_of(gpu_type)
        types = (gpu_type, share.gpu_type) if share else (gpu_type,)
        return self.simulated_gpus or any(
            bool(self.gpu_types.get(name, {}).get("simulated")) for name in types
        )

    def load(self) -> None:
        """Compile the templates ahead, not while the first visitor waits."""
        for name in ("launch_form.html", "space_form.html"):
            self._pages.get_template(name)

    def render(self, view: LaunchView) -> str:
        """Return the HTML inside the launch page's ``<form>``."""
        return self._pages.get_template("launch_form.html").render(view=view)

    def render_in_space(self, **facts: Any) -> str:
        """Return that HTML for a session in a space (templates/space_form.html)."""
        return self._pages.get_template("space_form.html").render(**facts)

    def problems(
        self,
        associations: Sequence[Association] | None,
        person: Person,
        storage: Sequence[StorageArea] = (),
    ) -> list[str]:
        """Return why this person could not start any session now, each with whom to ask.

        ``associations`` None means that the cluster keeps no accounting.
        """
        problems = []
        if associations is not None and not associations:
            problems.append(
                f"'{person.name}' has no Slurm account on this cluster, so Slurm would refuse the "
                f"session. Please ask {self.contact} to add one."
            )
        for area in storage:
            if not area.required:
                continue
            if area.missing:
                problems.append(
                    f"The folder {area.path} ({area.title}) does not exist, and a session cannot "
                    f"start without it. Please ask {self.contact} to create it."
                )
            elif area.free_bytes is not None and area.free_bytes < self.minimum_free * 1024**2:
                problems.append(
                    f"{area.title} ({area.shown or area.path}) has only "
                    f"{words.size(area.free_bytes)} free, too little for a session to start. "
                    f"Delete files that you do not need, or ask {self.contact} for space."
                )
        return problems

    def view(
        self,
        snapshot: ClusterSnapshot | None,
        environments: Sequence[Environment],
        associations: Sequence[Association] | None,
        person: Person,
        *,
        last: Mapping[str, Any] | None = None,
        linked: Mapping[str, Any] | None = None,
        storage: Sequence[StorageArea] = (),
        problems: Sequence[str] = (),
        unknown: str = "",
        defaults: Resources | None = None,
        preferences: Preferences = NO_PREFERENCES,
        tiles: Callable[[Environment], Tile] = tile_of,
        spaces: Sequence[Space] = (),
        now: float | None = None,
    ) -> LaunchView:
        """Return the view model of the page.

        ``snapshot`` None: Slurm never answered yet. ``environments`` are those that this person
        may use; ``last`` is the last session's ``user_options``, ``linked`` those of a link, which
        count instead as far as they fit; ``defaults`` are the site's
        resources where neither the person nor the environment names them. ``unknown``: a sentence
        if this person's associations could not be read. ``preferences``: what this person likes and
        used last; ``tiles`` returns the content of an environment's card; ``spaces``: those that
        a session can be launched for.
        """
        now = time.time() if now is None else now
        problems = [*problems]
        stale = ""
        if snapshot is None:
            problems.append(
                "Slurm does not answer, so no session can start now. Try again in a minute; "
                f"if the problem persists, contact {self.contact}."
            )
            snapshot = ClusterSnapshot(taken_at=now)
        else:
            stale = words.outdated(snapshot, self.stale_after, "these numbers are", now)
        environments = ordered(environments, preferences)
        if not environments:
            problems.append(f"No environment is available to you. Please ask {self.contact}.")
        partitions = allowed_partitions(person, snapshot, associations)
        before = linked or last or {}
        last = last_choice.well_formed(before)
        chosen = last_choice.chosen_environment(environments, last)
        last = last_choice.asked(
            last,
            last_choice.preset(chosen, defaults, {}),
            lambda resources: choose_partition(resources, person, snapshot, associations),
        )
        supply = availability(snapshot, [p.name for p in partitions], now)
        if snapshot.partitions and not partitions and associations != ():
            problems.append(
                f"No partition of this cluster is available to you now. Please ask {self.contact}."
            )
        simulated = {name for name in supply.gpus if self.simulates(name)}
        most = max((gpu.per_node for gpu in supply.gpus.values()), default=0)
        limits = [row.max_gpus_per_job for row in associations or ()]
        if limits and None not in limits:
            most = min(most, max(limit for limit in limits if limit is not None))
        longest = choices.longest_time(supply, associations, snapshot.qos)
        if linked:
            last = last_choice.within(last, most, longest)
        preset = last_choice.preset(chosen, defaults, last)
        count = min(last_choice.whole(preset.get("gpus")), most)
        times = self._times(preset, longest)
        cards = tuple(choices.card(tiles(e), preferences, e is chosen) for e in environments)
        resume_seconds = snapshot.resume_seconds_of(
            node for node in snapshot.nodes.values() if node.asleep
        )
        gpu_tiles = self._gpu_tiles(supply, last, resume_seconds) if most else ()
        return LaunchView(
            cards=cards,
            tags=common_tags(cards),
            spaces=choices.space_fields(spaces, before),
            kinds=choices.kind_choices(environments, last),
            gpu_counts=choices.gpu_counts(most, count),
            gpu_most=most,
            gpus=count,
            gpu_tiles=gpu_tiles,
            gpu_memories=_memories(gpu_tiles),
            times=times,
            cpus_text=_cpus_text(supply, resume_seconds),
            folded=folded_fields(
                Facts(snapshot, supply, associations, person, now, simulated, last, preset)
            ),
            more=last_choice.folded_chosen(last),
            areas=tuple(choices.area_in_words(area) for area in storage),
            stale=stale,
            unknown=unknown,
            problems=tuple(problems),
            contact=self.contact,
            client=choices.client_data(
                environments, supply, defaults, simulated, person.name, gpu_titles(self.gpu_types)
            ),
        )

    def _times(self, preset: Mapping[str, Any], longest: int | None) -> tuple[Choice, ...]:
        wanted = preset.get("time") or _USUAL_TIME
        seconds = ({choices.seconds(text) for text in self.times} | {int(wanted)}) - {0}
        if longest is not None:
            seconds = {s for s in seconds if s <= longest} or {longest}
        fits = [s for s in sorted(seconds) if s <= wanted]
        selected = max(fits) if fits else min(seconds)
        return tuple(
            Choice(
                value=time_text(s),
                label=words.duration(s),
                selected=s == selected,
                data={"seconds": str(s)},
            )
            for s in sorted(seconds)
        )

    def _gpu_tiles(
        self, supply: Availability, last: Mapping[str, Any], resume_seconds: int | None
    ) -> tuple[GpuTile, ...]:
        picked = last.get("gpu_type") if last.get("gpu_type") in supply.gpus else ""
        tiles = []
        whole = {name: gpu for name, gpu in supply.gpus.items() if not gpu.each}
        if not picked and len(whole) == 1:
            (picked,) = whole
        if len(whole) > 1:
            tiles.append(
                GpuTile(
                    type="",
                    title="Any type",
                    about="whichever is free first",
                    free=sum(gpu.free for gpu in whole.values()),
                    total=sum(gpu.total for gpu in whole.values()),
                    asleep=_asleep(sum(gpu.asleep for gpu in whole.values()), resume_seconds),
                    simulated=all(self.simulates(name) for name in whole),
                    selected=not picked,
                )
            )
        for name, gpu in {**whole, **supply.gpus}.items():
            about = self.gpu_types.get(name, {})
            facts = [about.get("memory"), about.get("interconnect"), part_words(name, gpu.each)]
            tiles.append(
                GpuTile(
                    type=name,
                    title=self.title_of(name),
                    about=", ".join(str(fact) for fact in facts if fact),
                    free=gpu.free,
                    total=gpu.total,
                    asleep=_asleep(gpu.asleep, resume_seconds),
                    out_of_service=gpu.out_of_service,
                    simulated=self.simulates(name),
                    selected=name == picked,
                    memory=_own_memory(name, about.get("memory")),
                )
            )
        return tuple(tiles)


def _own_memory(gpu_type: str, described: object) -> int:
    """Return the GB of a slice by its name, or of a GPU as the site describes it ("32 GB"); 0 for
    shares, which have no memory of their own, and where it is not known."""
    if found := slice_of(gpu_type):
        return found.memory
    match = re.fullmatch(r"([1-9][0-9]{0,3}) ?G(i?B)?", str(described or "").strip())
    return int(match[1]) if match and not share_of(gpu_type) else 0


def _memories(tiles: Sequence[GpuTile]) -> tuple[int, ...]:
    """Return the sizes to choose by; () on a cluster without slices."""
    known = {tile.memory for tile in tiles if tile.memory}
    return tuple(sorted(known)) if any(slice_of(tile.type) for tile in tiles) else ()


def _asleep(number: int, resume_seconds: int | None) -> str:
    """Return "4 switched on when needed, about 10 min"; "" for none."""
    return f"{number} switched on when needed{waking_words(resume_seconds)}" if number else ""


def _cpus_text(supply: Availability, resume_seconds: int | None) -> str:
    if not supply.cpus:
        return ""
    free = f"{supply.cpus_free} of {supply.cpus} CPUs free"
    asleep = _asleep(supply.cpus_asleep, resume_seconds)
    return f"{free} ({asleep})" if asleep else free
