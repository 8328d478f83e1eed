"""Estimator: Slurm's own estimate if it may be asked, else what is known already.

Slurm is asked as the person (``sbatch --test-only``), since associations and limits are theirs;
the answer counts for everyone who asks for the same with the same account and QOS. The order is: a
limit of the person; Slurm's answer, new or a little old; free resources; when the queue is
expected to go on; how long similar sessions waited. Never "now" while Slurm does not answer.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from typing import Any

from traitlets import Bool, Float, Instance
from traitlets.config import LoggingConfigurable

from portal.cache import SharedAnswer
from portal.errors import NotAllowed, TooManyRequests
from portal.launch import estimate_words as words
from portal.launch.estimate import (
    AT_ONCE,
    Wait,
    behind_the_queue,
    counts_too_many,
    covers,
    room_now,
    starts_now,
    without_slurm,
    woken,
)
from portal.launch.forecast import hourly_waits
from portal.launch.limits.running_limits import held_back
from portal.launch.nearby import Candidate, candidates
from portal.launch.policy import Associations
from portal.launch.request import LaunchRequest
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.person import Person
from portal.models.session.estimate import Estimate, Nearby, Outlook, StartAnswer
from portal.models.session.resources import Resources
from portal.setting import setting
from portal.slurm import SlurmRunner
from portal.slurm.commands.start_estimate import AnswerNotUnderstood, test_only
from portal.slurm.watch.budget import QueryBudget
from portal.store import Store

from .judging import behind_limit, estimate_of, is_better, label_of, question_of
from .questions import Questions, SlurmAnswer

# Share of queries_per_second for each process: the launch page is the Hub's.
HUB, SERVICE = 2 / 3, 1 / 3
_OLDEST = 60.0  # seconds; an older snapshot says nothing about now
_WAITS_FOR = 300.0  # seconds for which the recorded waits are kept
_AT_A_TIME = 15  # questions of one person after a quiet time
_PEOPLE = 5000  # whose questions are counted
_NAMED = 3  # nearby choices


class StartEstimates(LoggingConfigurable):
    """Estimates of when a session would start, for the launch page and for "Change resources"."""

    runner = Instance(SlurmRunner, help="Runner of the commands.")
    store = Instance(Store, help="Store of the recorded wait times.")

    ask_slurm = setting(
        Bool(True),
        """Query Slurm (`sbatch --test-only`, as the user). If off, estimates use only
        free resources and recorded sessions.""",
        "c.StartEstimates.ask_slurm = False",
    )
    queries_per_second = setting(
        Float(2.0, min=0.01),
        """Average number of queries per second for all users together. The Hub (the launch page)
        gets two thirds of them, the service one third.""",
        "c.StartEstimates.queries_per_second = 1",
    )
    # Share of the time in which each process may have a query running: Slurm is queried less often
    # if it answers slowly because many jobs are pending.
    busy_share = Float(0.5)
    fresh_for = 20.0  # seconds for which Slurm's answer is reused for identical requests
    usable_for = 180.0  # the same, while Slurm may not be queried again yet
    patience = Float(1.5)  # seconds until a page shows what is known without Slurm's answer
    waits_days = 14  # of recorded sessions whose wait times are used

    per_person = Float(3.0)  # estimates a second for one user on average; bursts may exceed it

    def __init__(self, *, share: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.questions = Questions(self.queries_per_second * share, self.busy_share)
        self.answers: Counter[str] = Counter()  # by basis; "cached" are Slurm's from before
        self._people: OrderedDict[str, QueryBudget] = OrderedDict()
        self._waits = SharedAnswer[list[Wait]](
            self._read_waits, ttl=_WAITS_FOR, retry=10.0, first=[]
        )
        self._odd_answer_logged = False

    # -- what is asked ------------------------------------------------------------------------

    def admit(self, user: str) -> None:
        """Count a request of this person. Raises TooManyRequests."""
        allowed = self._people.pop(user, None) or QueryBudget(self.per_person, _AT_A_TIME, 0.0)
        self._people[user] = allowed
        while len(self._people) > _PEOPLE:
            self._people.popitem(last=False)
        if not allowed.spend(1):
            raise TooManyRequests("Too many requests. Try again in a second.")

    async def answer(
        self,
        request: LaunchRequest,
        person: Person,
        snapshot: ClusterSnapshot,
        associations: Associations,
    ) -> StartAnswer:
        """Return the answer for a request that the policy allows, with choices that start earlier.
        Raises no errors of Slurm or the database."""
        estimate = await self.estimate(request, person.name, snapshot, associations)
        self.answers[estimate.basis.value or "unknown"] += 1
        nearby: list[Nearby] = []
        if estimate.outlook in (Outlook.LATER, Outlook.UNKNOWN) and not self._out_of_date(snapshot):
            nearby = await self._nearby(estimate, request, person, snapshot, associations)
        now = time.time()
        waits = hourly_waits(request.resources, snapshot, estimate, now)
        return StartAnswer.like(
            estimate,
            words=words.sentence(estimate, now),
            source=words.source(estimate),
            nearby=tuple(nearby),
            waits=waits,
            waits_words=words.day(waits, now),
        )

    @staticmethod
    def refusal(error: NotAllowed) -> StartAnswer:
        """Return the answer for a request that is not allowed, with the reason."""
        return StartAnswer(
            outlook=Outlook.REFUSED,
            words=error.message,
            field=error.field or "",
            made_at=time.time(),
        )

    async def estimate(
        self,
        request: LaunchRequest,
        user: str,
        snapshot: ClusterSnapshot,
        associations: Associations,
    ) -> Estimate:
        """Return the estimate alone, without nearby choices."""
        resources = request.resources
        answer = self._known_answer(resources, user, snapshot, associations, self.fresh_for)
        if answer is None and self.ask_slurm and not self._out_of_date(snapshot):
            answer = await self._ask(request, resources, user, associations, patience=self.patience)
        else:
            self.answers["cached"] += answer is not None
        return self._known(resources, user, snapshot, associations, answer)

    def known(
        self,
        resources: Resources,
        user: str,
        snapshot: ClusterSnapshot,
        associations: Associations,
    ) -> Estimate:
        """Return the estimate without asking anybody, for the record at a launch and for Home."""
        return self._known(resources, user, snapshot, associations, None)

    # -- what is known ------------------------------------------------------------------------

    def _known(
        self,
        resources: Resources,
        user: str,
        snapshot: ClusterSnapshot,
        associations: Associations,
        answer: SlurmAnswer | None,
    ) -> Estimate:
        now = time.time()
        self._waits.expect()  # answers do not wait for it
        away = self._out_of_date(snapshot) or self.questions.away
        if away:
            return Estimate(
                outlook=Outlook.UNKNOWN,
                reason=f"Start time unknown: Slurm does not answer. {away}",
                made_at=now,
            )
        answer = answer or self._known_answer(
            resources, user, snapshot, associations, self.usable_for
        )
        estimate = estimate_of(answer)
        late = estimate is not None and estimate.outlook in (Outlook.LATER, Outlook.UNKNOWN)
        too_many = late and counts_too_many(resources, snapshot)
        if estimate is None or (too_many and starts_now(resources, snapshot, now)):
            latest = self._latest(resources, associations, now)
            estimate = without_slurm(resources, snapshot, self._waits.last or [], now, latest)
        estimate = woken(estimate, resources, snapshot, now)
        if estimate.outlook is Outlook.REFUSED:
            return estimate
        held = held_back(resources, user, snapshot, associations)
        return estimate if held is None else behind_limit(held, estimate, now)

    def _latest(self, resources: Resources, associations: Associations, now: float) -> float | None:
        """Return the earliest start that Slurm named for something larger; None if there is
        none."""
        key = question_of(resources, associations)
        starts = [
            start
            for other, start in self.questions.answers(time.monotonic() - self.usable_for)
            if start > now and isinstance(other, Resources) and covers(other, key)
        ]
        return min(starts, default=None)

    def _known_answer(
        self,
        resources: Resources,
        user: str,
        snapshot: ClusterSnapshot,
        associations: Associations,
        seconds: float,
    ) -> SlurmAnswer | None:
        """Return Slurm's answer of the last ``seconds``, unless newer data contradicts it."""
        now = time.time()
        since = time.monotonic() - seconds
        answer = self.questions.known_answer(question_of(resources, associations), user, since)
        if answer is None or answer.start is None:
            return answer
        was_now = answer.start - answer.at <= AT_ONCE
        if not was_now:
            return answer if answer.start > now else None
        # A "now" that is not free any more.
        newer = snapshot.age < time.monotonic() - answer.asked_at
        over = newer and not room_now(resources, snapshot, now)
        return None if over else answer

    async def _ask(
        self,
        request: LaunchRequest,
        resources: Resources,
        user: str,
        associations: Associations,
        *,
        patience: float,
        leave: int = 0,
    ) -> SlurmAnswer | None:
        key = question_of(resources, associations)

        async def ask() -> float:
            name = request.environment.name
            try:
                return await test_only(self.runner, resources, user, name, 10.0)
            except AnswerNotUnderstood as error:
                if not self._odd_answer_logged:
                    self.log.warning(
                        "The portal cannot read the output of sbatch --test-only, so it shows "
                        "no estimates from Slurm (it tries again every ten minutes): %r",
                        error.answer_text,
                    )
                self._odd_answer_logged = True
                raise

        before = self.questions.away
        answer = await self.questions.ask(key, user, ask, patience=patience, leave=leave)
        if self.questions.away not in ("", before):
            self.log.warning("Slurm's estimate: %s", self.questions.away)
        return answer

    @staticmethod
    def _out_of_date(snapshot: ClusterSnapshot) -> str:
        if snapshot.error:
            return snapshot.error
        return "" if snapshot.age <= _OLDEST else "Its last answer is too old."

    # -- nearby choices -----------------------------------------------------------------------

    async def _nearby(
        self,
        estimate: Estimate,
        request: LaunchRequest,
        person: Person,
        snapshot: ClusterSnapshot,
        associations: Associations,
    ) -> list[Nearby]:
        """Return at most one choice of each kind of change: the first that starts now, else the
        first that starts clearly earlier."""
        by_kind: dict[str, tuple[Candidate, Estimate]] = {}
        for candidate in candidates(request, person, snapshot, associations):
            if candidate.kind in by_kind and by_kind[candidate.kind][1].outlook is Outlook.NOW:
                continue
            alternative = await self._of_candidate(
                candidate, request, person, snapshot, associations
            )
            if is_better(alternative, estimate) and (
                candidate.kind not in by_kind or alternative.outlook is Outlook.NOW
            ):
                by_kind[candidate.kind] = candidate, alternative
        best = sorted(by_kind.values(), key=lambda pair: pair[1].starts_at or 0.0)[:_NAMED]
        now = time.time()
        return [
            Nearby(
                label=label_of(candidate),
                words=words.starts(alternative, now),
                changes=candidate.changes,
                starts_at=alternative.starts_at,
            )
            for candidate, alternative in best
        ]

    async def _of_candidate(
        self,
        candidate: Candidate,
        request: LaunchRequest,
        person: Person,
        snapshot: ClusterSnapshot,
        associations: Associations,
    ) -> Estimate:
        """Estimate a candidate; Slurm is asked only if the snapshot gives hope, and if a question
        is left for the next person's own choice."""
        user, resources = person.name, candidate.resources
        now = time.time()
        answer = self._known_answer(resources, user, snapshot, associations, self.fresh_for)
        hopeful = starts_now(resources, snapshot, now) or (
            candidate.kind == "time" or behind_the_queue(resources, snapshot, now) is not None
        )
        if answer is None and self.ask_slurm and hopeful:
            answer = await self._ask(
                request, resources, user, associations, patience=self.patience / 3, leave=1
            )
        return self._known(resources, user, snapshot, associations, answer)

    # -- recorded waits -----------------------------------------------------------------------

    async def _read_waits(self) -> list[Wait]:
        since = time.time() - self.waits_days * 86_400
        return [
            Wait(
                str(options.get("partition") or ""),
                int(options.get("gpus") or 0),
                str(options.get("gpu_type") or ""),
                seconds,
            )
            for options, seconds in await self.store.sessions.waits(since)
        ]
