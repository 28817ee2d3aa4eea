"""Guards of the way from what changed to what is enqueued: the agenda and the follower."""

from __future__ import annotations

from tests.simulation.mutation import Guard

_AGENDA = "tests/unit/watcher/test_agenda.py"
_FOLLOW = "tests/unit/watcher/test_follow.py"

GUARDS: tuple[Guard, ...] = (
    Guard(
        "a change is not forgotten when a look without one follows",
        "watcher.agenda:Agenda.look",
        "changed or before.changed",
        "changed",
        f"{_AGENDA}::test_a_change_is_not_forgotten_when_a_look_without_one_follows",
    ),
    Guard(
        "a change of a slice is not forgotten when another look follows",
        "watcher.agenda:Agenda.look",
        "slices_changed or before.slices_changed",
        "slices_changed",
        f"{_FOLLOW}::test_a_change_of_a_slice_gates_its_converged_composition_once",
    ),
    Guard(
        "a look wakes up whoever waits for one",
        "watcher.agenda:Agenda.look",
        "self._condition.notify_all()",
        "pass",
        f"{_AGENDA}::test_a_waiting_loop_wakes_up_for_a_look",
    ),
    Guard(
        "a change of a slice that was acted on is over",
        "watcher.agenda:Agenda.look_at",
        "self._slices_changed.discard(key)",
        "pass",
        (
            f"{_FOLLOW}::test_a_changed_slice_of_a_settled_composition_is_remembered_while_its_gate_canno"
            "t_be_sent[held back]"
        ),
    ),
    Guard(
        "a change of a slice is remembered while its gate cannot be sent",
        "watcher.agenda:Agenda.look_at",
        "if slices_changed:",
        "if False:",
        (
            f"{_FOLLOW}::test_a_changed_slice_of_a_settled_composition_is_remembered_while_its_gate_canno"
            "t_be_sent[held back]"
        ),
    ),
    Guard(
        "an instant that was taken back is none",
        "watcher.agenda:Agenda.look_at",
        "self._later.pop(key, None)",
        "pass",
        f"{_AGENDA}::test_the_last_instant_given_counts",
    ),
    Guard(
        "replaced instants do not pile up",
        "watcher.agenda:Agenda.look_at",
        "if len(self._heap) > max(_COMPACT_ABOVE, 2 * len(self._later)):",
        "if False:",
        f"{_AGENDA}::test_replaced_instants_do_not_pile_up",
    ),
    Guard(
        "of the instants of a key only the last one counts",
        "watcher.agenda:Agenda.take",
        "if self._later.get(key) == instant:\n                    del self._later[key]",
        "if self._later.pop(key, None):\n                    pass",
        f"{_AGENDA}::test_the_last_instant_given_counts",
    ),
    Guard(
        "a clock that is set back stretches no wait",
        "watcher.agenda:Agenda.take",
        "set_back or ",
        "",
        f"{_AGENDA}::test_a_clock_that_is_set_back_stretches_no_wait",
    ),
    Guard(
        "a timer does not take the change away from a look that is due",
        "watcher.agenda:Agenda.take",
        "self._due.setdefault(key, Look(key, changed=False))",
        "self._due[key] = Look(key, changed=False)",
        f"{_AGENDA}::test_a_change_is_not_forgotten_when_its_instant_comes_as_well",
    ),
    Guard(
        "a remembered change of a slice comes with the next look",
        "watcher.agenda:Agenda.take",
        "look.slices_changed or key in self._slices_changed",
        "look.slices_changed",
        (
            f"{_FOLLOW}::test_a_changed_slice_of_a_settled_composition_is_remembered_while_its_gate_canno"
            "t_be_sent[held back]"
        ),
    ),
    Guard(
        "nobody waits while something is due",
        "watcher.agenda:Agenda.wait",
        "if not self._due:",
        "if True:",
        f"{_AGENDA}::test_nobody_waits_while_something_is_due",
    ),
    Guard(
        "what the first list shows is no change",
        "watcher.follow:CacheSink.replace",
        "changed=self._listed",
        "changed=True",
        f"{_FOLLOW}::test_a_converged_cluster_asks_redis_nothing[ready]",
    ),
    Guard(
        "a change that only a later list shows is one",
        "watcher.follow:CacheSink.replace",
        "self._listed = True",
        "pass",
        f"{_FOLLOW}::test_a_change_of_a_slice_gates_its_converged_composition_once",
    ),
    Guard(
        "a change of a slice is known from one of a composition",
        "watcher.follow:CacheSink._look",
        "changed and self._kind is Kind.SLICE",
        "False",
        f"{_FOLLOW}::test_a_change_of_a_slice_gates_its_converged_composition_once",
    ),
    Guard(
        "only a change of a slice calls for a gate of what is settled",
        "watcher.follow:CacheSink._look",
        "changed and self._kind is Kind.SLICE",
        "changed",
        f"{_FOLLOW}::test_a_change_of_a_slice_gates_its_converged_composition_once",
    ),
    Guard(
        "the first list of slices calls for no gate of what is settled",
        "watcher.follow:CacheSink._look",
        "changed and self._kind is Kind.SLICE",
        "self._kind is Kind.SLICE",
        f"{_FOLLOW}::test_a_converged_cluster_asks_redis_nothing[ready]",
    ),
    Guard(
        "an outage of Redis loses no look",
        "watcher.follow:Follower.step",
        "self._agenda.look([look.key], changed=look.changed, slices_changed=look.slices_changed)",
        "pass",
        f"{_FOLLOW}::test_a_change_of_a_slice_is_not_forgotten_in_an_outage_of_redis",
    ),
    Guard(
        "an outage of Redis forgets no change",
        "watcher.follow:Follower.step",
        "changed=look.changed, slices_changed",
        "changed=False, slices_changed",
        f"{_FOLLOW}::test_a_change_during_an_outage_of_redis_ends_parking_all_the_same",
    ),
    Guard(
        "an outage of Redis forgets no change of a slice",
        "watcher.follow:Follower.step",
        "slices_changed=look.slices_changed)",
        "slices_changed=False)",
        f"{_FOLLOW}::test_a_change_of_a_slice_is_not_forgotten_in_an_outage_of_redis",
    ),
    Guard(
        "an outage of Redis is waited for",
        "watcher.follow:Follower.step",
        "return self._broker_lost(error)",
        "self._broker_lost(error)",
        f"{_FOLLOW}::test_an_outage_of_redis_loses_nothing_and_is_logged_once",
    ),
    Guard(
        "a pause that Redis names is not believed for longer than a resync",
        "watcher.follow:Follower._look_again",
        "min(answer.at, resync) if",
        "answer.at if",
        (f"{_FOLLOW}::test_a_pause_longer_than_a_resync_is_asked_for_again_since_redis_may_forget_it[NotBefore]"),
    ),
    Guard(
        "a pause that Redis names is kept to",
        "watcher.follow:Follower._look_again",
        "min(answer.at, resync) if",
        "resync if",
        f"{_FOLLOW}::test_a_pause_that_redis_names_is_kept_to",
    ),
    Guard(
        "what is enqueued is looked at again after a resync",
        "watcher.follow:Follower._look_again",
        "else resync for _, answer in answers]",
        "else resync for _, answer in answers if isinstance(answer, NotBefore)]",
        "adoption/undisturbed/",
    ),
    Guard(
        "what waits by itself is looked at when it said",
        "watcher.follow:Follower._look_again",
        "if derived.look_again is not None:",
        "if False:",
        "unsettled/undisturbed/",
    ),
    Guard(
        "a change of a slice is kept while its gate is held back",
        "watcher.follow:Follower._look_again",
        "slices_changed=look.slices_changed and held_back",
        "slices_changed=False",
        (
            f"{_FOLLOW}::test_a_changed_slice_of_a_settled_composition_is_remembered_while_its_gate_canno"
            "t_be_sent[held back]"
        ),
    ),
    Guard(
        "a change of a slice is gated once",
        "watcher.follow:Follower._look_again",
        "look.slices_changed and held_back",
        "look.slices_changed",
        f"{_FOLLOW}::test_a_change_of_a_slice_gates_its_converged_composition_once",
    ),
    Guard(
        "whoever does not lead enqueues nothing",
        "watcher.follow:Follower._enqueue",
        "self._leadership.require()\n        answers",
        "answers",
        f"{_FOLLOW}::test_whoever_does_not_lead_enqueues_nothing_not_even_half_of_a_step",
    ),
    Guard(
        "a leader that lost while Redis answered enqueues nothing more",
        "watcher.follow:Follower._enqueue",
        "self._leadership.require()\n            retried",
        "retried",
        f"{_FOLLOW}::test_a_leader_that_lost_while_redis_answered_enqueues_nothing_more",
    ),
    Guard(
        "only a change of its object ends a wait",
        "watcher.follow:Follower._enqueue",
        "if changed and isinstance(",
        "if isinstance(",
        f"{_FOLLOW}::test_a_change_of_the_object_ends_parking_and_waiting[parked]",
    ),
    Guard(
        "a change of its object ends a wait",
        "watcher.follow:Follower._enqueue",
        "if changed and isinstance(",
        "if False and isinstance(",
        f"{_FOLLOW}::test_a_change_of_the_object_ends_parking_and_waiting[parked]",
    ),
    Guard(
        "a look knows that a slice changed",
        "watcher.follow:Follower._derive",
        "slices_changed=look.slices_changed",
        "slices_changed=False",
        f"{_FOLLOW}::test_a_change_of_a_slice_gates_its_converged_composition_once",
    ),
)
