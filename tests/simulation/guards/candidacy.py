"""Guards of a candidate: what it reads and writes of the Lease, and what it makes of errors."""

from __future__ import annotations

from tests.simulation.mutation import Guard

_CANDIDATE = "tests/unit/kube/test_lease.py"

GUARDS: tuple[Guard, ...] = (
    Guard(
        "a release does not overwrite a holder that came in between",
        "kube.lease:Candidate.release",
        "self._cluster.update(LEASES, self._namespace, self._name, released(lease, self._wall()))",
        (
            'self._cluster.merge_patch(LEASES, self._namespace, self._name, {"spec": released(lease, '
            'self._wall())["spec"]})'
        ),
        f"{_CANDIDATE}::test_a_lease_that_is_taken_during_its_release_stays_taken",
    ),
    Guard(
        "whoever lost never leads again",
        "kube.lease:Candidate.leads",
        "self._lost is None and ",
        "",
        f"{_CANDIDATE}::test_a_stolen_lease_is_lost_at_the_next_look_and_for_good",
    ),
    Guard(
        "nobody leads past its own term by the clock",
        "kube.lease:Candidate.leads",
        " and self._clock() < term.until",
        "",
        f"{_CANDIDATE}::test_a_leader_that_notices_nothing_leads_no_longer_than_its_term",
    ),
    Guard(
        "who does not lead may not act as a leader",
        "kube.lease:Candidate.require",
        "if not self.leads:",
        "if False:",
        f"{_CANDIDATE}::test_a_leader_that_notices_nothing_leads_no_longer_than_its_term",
    ),
    Guard(
        "a candidate goes on only until it is told to stop",
        "kube.lease:Candidate.run",
        "while not stop.is_set():",
        "for _ in range(50):",
        f"{_CANDIDATE}::test_it_runs_until_it_is_told_to_stop",
    ),
    Guard(
        "a candidate that takes part shows that it lives",
        "kube.lease:Candidate.run",
        "beat()",
        "pass",
        f"{_CANDIDATE}::test_it_runs_until_it_is_told_to_stop",
    ),
    Guard(
        "a candidate that stands by writes nothing",
        "kube.lease:Candidate.round",
        "if isinstance(verdict, Claim | Renew):",
        "if isinstance(verdict, Claim | Renew | StandBy):",
        f"{_CANDIDATE}::test_whoever_comes_first_leads_at_once",
    ),
    Guard(
        "a race that was lost is no failure",
        "kube.lease:Candidate.round",
        "except (Conflict, AlreadyExists):",
        "except ZeroDivisionError:",
        f"{_CANDIDATE}::test_of_two_that_find_none_one_makes_it",
    ),
    Guard(
        "a failure of the API server is waited out by a candidate",
        "kube.lease:Candidate.round",
        "except ApiError as error:",
        "except Conflict as error:",
        f"{_CANDIDATE}::test_a_claim_without_an_answer_is_settled_by_the_next_look[True]",
    ),
    Guard(
        "whatever was in the way is over once the server answers",
        "kube.lease:Candidate.round",
        "self._settled()",
        "pass",
        f"{_CANDIDATE}::test_a_failure_is_waited_out_and_told_once[Throttled 429-read]",
    ),
    Guard(
        "a leader that has lost ends",
        "kube.lease:Candidate.round",
        "if isinstance(verdict, Lost):",
        "if False:",
        f"{_CANDIDATE}::test_a_leader_that_was_stopped_for_long_has_lost_it_whoever_has_it_now",
    ),
    Guard(
        "a leader that has lost remembers it",
        "kube.lease:Candidate.round",
        "self._lost = verdict",
        "pass",
        f"{_CANDIDATE}::test_a_stolen_lease_is_lost_at_the_next_look_and_for_good",
    ),
    Guard(
        "who does not lead releases nothing",
        "kube.lease:Candidate.release",
        "self._term is None or ",
        "",
        f"{_CANDIDATE}::test_who_does_not_lead_releases_nothing_and_asks_nobody",
    ),
    Guard(
        "who has lost releases nothing",
        "kube.lease:Candidate.release",
        " or self._lost is not None",
        "",
        f"{_CANDIDATE}::test_who_has_lost_releases_nothing_and_asks_nobody",
    ),
    Guard(
        "who releases its Lease leads no longer",
        "kube.lease:Candidate.release",
        "self._term = None",
        "pass",
        f"{_CANDIDATE}::test_a_released_lease_is_taken_at_the_next_look",
    ),
    Guard(
        "a Lease that is somebody else's is not released",
        "kube.lease:Candidate.release",
        "and Record.of(lease).holder == self.identity",
        "",
        f"{_CANDIDATE}::test_a_lease_that_is_no_longer_ours_is_not_released",
    ),
    Guard(
        "a release that fails ends nothing",
        "kube.lease:Candidate.release",
        "except ApiError as error:",
        "except ZeroDivisionError as error:",
        f"{_CANDIDATE}::test_a_release_that_fails_ends_nothing[get]",
    ),
    Guard(
        "a Lease that cannot be read is not absent",
        "kube.lease:Candidate._read",
        "except NotFound:",
        "except ApiError:",
        f"{_CANDIDATE}::test_a_failure_is_waited_out_and_told_once[Throttled 429-read]",
    ),
    Guard(
        "who leads is not known before the server has said so",
        "kube.lease:Candidate._read",
        "        try:\n            lease",
        "        self._answered = True\n        try:\n            lease",
        f"{_CANDIDATE}::test_who_leads_is_known_as_soon_as_the_server_says_so_and_no_sooner",
    ),
    Guard(
        "a term counts from before the write went out",
        "kube.lease:Candidate._write",
        "Term.begun(sent, self._timing)",
        "Term.begun(self._clock(), self._timing)",
        f"{_CANDIDATE}::test_a_term_counts_from_before_the_write_went_out",
    ),
    Guard(
        "a leader whose namespace went is no mistake of a person",
        "kube.lease:Candidate._create",
        "if self._term is not None:",
        "if False:",
        f"{_CANDIDATE}::test_a_namespace_that_is_gone_while_one_leads_is_no_mistake_of_a_person",
    ),
    Guard(
        "a namespace that does not exist is said at once",
        "kube.lease:Candidate._create",
        "except NotFound as error:",
        "except ZeroDivisionError as error:",
        f"{_CANDIDATE}::test_a_namespace_that_does_not_exist_is_a_persons_mistake",
    ),
    Guard(
        "a candidate without permission says so and ends",
        "kube.lease:Candidate._failed",
        "if self._term is None and isinstance(error, Forbidden | NamespaceTerminating):",
        "if False:",
        f"{_CANDIDATE}::test_who_may_not_take_part_says_so_and_ends[Forbidden-get]",
    ),
    Guard(
        "a leader that loses a permission keeps its term",
        "kube.lease:Candidate._failed",
        "self._term is None and ",
        "",
        (f"{_CANDIDATE}::test_a_leader_that_cannot_renew_has_lost_at_the_deadline_and_not_before[Forbidden-get]"),
    ),
    Guard(
        "a leader that cannot renew has lost at the deadline",
        "kube.lease:Candidate._failed",
        "if self._term is not None and not self.leads:",
        "if False:",
        (f"{_CANDIDATE}::test_a_leader_that_cannot_renew_has_lost_at_the_deadline_and_not_before[Throttled-get]"),
    ),
    Guard(
        "what keeps a candidate from knowing is told",
        "kube.lease:Candidate._failed",
        "self._obstacle = error",
        "pass",
        f"{_CANDIDATE}::test_a_failure_is_waited_out_and_told_once[Throttled 429-read]",
    ),
    Guard(
        "a candidate passes on what the server asks for",
        "kube.lease:Candidate._pause",
        "error.retry_after if error else None",
        "None",
        f"{_CANDIDATE}::test_a_pause_that_the_server_asks_for_is_kept_to",
    ),
    Guard(
        "a leader never waits past its term",
        "kube.lease:Candidate._pause",
        "self._term.until - self._clock() if self._term else None",
        "None",
        f"{_CANDIDATE}::test_a_leader_that_is_asked_for_a_pause_looks_once_more_within_its_term",
    ),
    Guard(
        "no two processes have one name",
        "kube.lease:process_identity",
        "{uuid.uuid4()}",
        "watcher",
        f"{_CANDIDATE}::test_no_two_processes_have_one_name",
    ),
    Guard(
        "of two that find a Lease expired only one takes it",
        "kube.lease:Candidate._write",
        "            self._cluster.update(LEASES, self._namespace, self._name, body)",
        (
            "            try:\n                self._cluster.update(LEASES, self._namespace, "
            "self._name, body)\n            except Conflict:\n                "
            'self._cluster.merge_patch(LEASES, self._namespace, self._name, {"spec": body["spec"]})'
        ),
        f"{_CANDIDATE}::test_of_two_that_find_it_expired_one_takes_it",
    ),
    Guard(
        "of two that find no Lease only one makes it",
        "kube.lease:Candidate._create",
        "self._cluster.create(LEASES, self._namespace, body)",
        (
            "try:\n                self._cluster.create(LEASES, self._namespace, body)\n            except "
            "AlreadyExists:\n                self._cluster.merge_patch(LEASES, self._namespace, "
            'self._name, {"spec": body["spec"]})'
        ),
        f"{_CANDIDATE}::test_of_two_that_find_none_one_makes_it",
    ),
    Guard(
        "an observation counts from after the answer came in",
        "kube.lease:Candidate.round",
        "            lease = self._read()\n            verdict = self._verdict(lease)",
        (
            "            clock, now = self._clock, self._clock()\n            lease = self._read()\n            "
            "self._clock = lambda: now\n            verdict = self._verdict(lease)\n            self._clock = "
            "clock"
        ),
        f"{_CANDIDATE}::test_an_observation_counts_from_after_the_answer_came_in",
    ),
)
