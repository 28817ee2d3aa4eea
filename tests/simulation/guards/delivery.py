"""Guards of the queue: messages, and which of them are sent."""

from __future__ import annotations

from tests.simulation.mutation import Guard

_DISPATCH = "tests/unit/runtime/test_dispatch.py"
_CLAIMS = "tests/unit/runtime/test_claims.py"
_MESSAGES = "tests/unit/runtime/test_messages.py"

GUARDS: tuple[Guard, ...] = (
    Guard(
        "a key that is held back is not enqueued",
        "runtime.dispatch:Dispatcher.enqueue_all",
        "if answer is None]",
        "]",
        f"{_DISPATCH}::test_a_key_that_failed_is_not_enqueued_before_its_time",
    ),
    Guard(
        "a key that is pending is not enqueued twice",
        "runtime.dispatch:Dispatcher._mark",
        "if holder == marker[1]}",
        "}",
        f"{_DISPATCH}::test_a_message_is_sent_once_while_it_is_pending",
    ),
    Guard(
        "a marker is set only where there is none",
        "runtime.dispatch:Dispatcher._mark",
        "nx=True, ",
        "",
        f"{_DISPATCH}::test_a_message_is_sent_once_while_it_is_pending",
    ),
    Guard(
        "a lost message blocks its key for no longer than its marker lives",
        "runtime.dispatch:Dispatcher._mark",
        ", px=self._pending",
        "",
        f"{_DISPATCH}::test_a_lost_message_blocks_its_key_for_no_longer_than_the_marker_lives",
    ),
    Guard(
        "a message that could not be sent is not pending",
        "runtime.dispatch:Dispatcher._send",
        "delete_if_equal(self._client, marker, token)",
        "pass",
        f"{_DISPATCH}::test_a_message_that_could_not_be_sent_is_not_pending",
    ),
    Guard(
        "a failed send leaves the marker of somebody else alone",
        "runtime.dispatch:delete_if_equal",
        "if held == value:",
        "if True:",
        f"{_DISPATCH}::test_a_failed_send_leaves_a_marker_alone_that_somebody_set_meanwhile",
    ),
    Guard(
        "a key that is being executed is not enqueued beside it",
        "runtime.dispatch:Dispatcher._closed",
        "(Running() if running else None)",
        "None",
        f"{_CLAIMS}::test_the_marker_is_gone_before_the_first_read",
    ),
    Guard(
        "a parked key is known from one that waits",
        "runtime.dispatch:Dispatcher._closed",
        "Parked(at) if parked else NotBefore(at)",
        "NotBefore(at)",
        f"{_DISPATCH}::test_a_parked_key_waits_a_quarter_of_an_hour",
    ),
    Guard(
        "a pause that is over holds no key back",
        "runtime.dispatch:_after",
        " if milliseconds > 0 else None",
        "",
        f"{_DISPATCH}::test_keys_do_not_stand_in_each_others_way",
    ),
    Guard(
        "what is asked for during an execution is done after it",
        "runtime.dispatch:Dispatcher._asked_again",
        'pipe.set(self._keys.again(keys[index]), "1", px=self._again)',
        "pipe.get(self._keys.again(keys[index]))",
        f"{_DISPATCH}::test_a_request_during_an_execution_is_a_message_after_it",
    ),
    Guard(
        "a request is not lost when the execution ends at the same moment",
        "runtime.dispatch:Dispatcher._asked_again",
        "Running() if still else None",
        "Running()",
        f"{_DISPATCH}::test_a_request_is_not_lost_when_the_execution_ends_at_the_same_moment",
    ),
    Guard(
        "a wish for another execution ends by itself",
        "runtime.dispatch:Dispatcher._asked_again",
        ", px=self._again",
        "",
        f"{_DISPATCH}::test_a_request_during_an_execution_is_a_message_after_it",
    ),
    Guard(
        "a change of an object does not shorten the pause after a failure",
        "runtime.dispatch:Dispatcher.unpark",
        "held_back != HeldBack.WAITING",
        "held_back is None",
        f"{_DISPATCH}::test_a_change_of_the_object_does_not_shorten_the_pause_after_a_failure",
    ),
    Guard(
        "a change of an object ends a wait",
        "runtime.dispatch:Dispatcher.unpark",
        "if not parked and held_back != HeldBack.WAITING:",
        "if not parked:",
        f"{_DISPATCH}::test_a_change_of_the_object_ends_a_wait",
    ),
    Guard(
        "a change of an object unparks its key",
        "runtime.dispatch:Dispatcher.unpark",
        "if not parked and held_back != HeldBack.WAITING:",
        "if held_back != HeldBack.WAITING:",
        f"{_DISPATCH}::test_a_change_of_the_object_unparks_its_key",
    ),
    Guard(
        "a person who asks now is not told to wait for a message that may be lost",
        "runtime.dispatch:Dispatcher.forget",
        "self._client.delete(self._keys.pending(key))",
        "pass",
        f"{_DISPATCH}::test_a_person_who_asks_now_is_not_told_to_wait",
    ),
    Guard(
        "a parked key whose object is gone is forgotten in the end",
        "runtime.dispatch:Dispatcher.parked",
        'self._client.zremrangebyscore(self._keys.parked_index, "-inf", now.timestamp())',
        "pass",
        f"{_DISPATCH}::test_a_parked_key_whose_object_is_gone_is_forgotten_in_the_end",
    ),
    Guard(
        "a key is unparked with its counts",
        "runtime.dispatch:Dispatcher._forget",
        "keys.attempts(key), keys.failures(key)",
        "keys.not_before(key)",
        f"{_CLAIMS}::test_a_change_of_the_object_gives_a_key_that_killed_its_workers_a_new_start",
    ),
    Guard(
        "an execution of one synthesis is not taken for one of another",
        "runtime.messages:_CompositionMessage.key",
        ":{self.synthesis_uuid}",
        "",
        f"{_MESSAGES}::test_a_key_is_the_task_the_uid_and_the_synthesis[recover]",
    ),
    Guard(
        "an execution of one composition is not taken for one of another",
        "runtime.messages:_CompositionMessage.key",
        "{self.uid}:",
        "",
        f"{_MESSAGES}::test_a_key_is_the_task_the_uid_and_the_synthesis[recover]",
    ),
    Guard(
        "slices without an owner have a key of their own",
        "runtime.messages:CleanupMessage.key",
        "if self.uid:",
        "if True:",
        f"{_MESSAGES}::test_slices_without_an_owner_have_a_message_and_a_key_of_their_own",
    ),
    Guard(
        "slices without an owner share no key",
        "runtime.messages:CleanupMessage.key",
        "{','.join(self.slices)}",
        "",
        f"{_MESSAGES}::test_slices_without_an_owner_have_a_message_and_a_key_of_their_own",
    ),
    Guard(
        "a payload that is not exactly right is refused",
        "runtime.messages:parse",
        "MESSAGES[task].model_validate(dict(payload))",
        "MESSAGES[task].model_validate(dict(payload), strict=False)",
        f"{_MESSAGES}::test_a_payload_that_is_not_exactly_right_is_refused[a switch that is no boolean]",
    ),
    Guard(
        "a payload with fields of its own is refused",
        "runtime.messages:parse",
        "MESSAGES[task].model_validate(dict(payload))",
        "MESSAGES[task].model_validate({k: v for k, v in payload.items() if k in MESSAGES[task].model_fields})",
        f"{_MESSAGES}::test_a_payload_that_is_not_exactly_right_is_refused[a field that no task takes]",
    ),
    Guard(
        "a payload that nobody has checked is not executed",
        "runtime.messages:parse",
        "MESSAGES[task].model_validate(dict(payload))",
        "MESSAGES[task].model_construct(**dict(payload))",
        f"{_MESSAGES}::test_a_message_survives_the_journey_through_json[recover]",
    ),
    Guard(
        "each task has a queue of its own",
        "runtime.messages:TaskName.queue",
        "{self.short}",
        "tasks",
        f"{_MESSAGES}::test_every_task_has_a_payload_and_a_queue_of_its_own",
    ),
)
