"""When Ctrl-C becomes a KeyboardInterrupt."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest

from console.interrupts import Interrupts, orderly_termination


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_between_two_steps_it_is_one_at_once() -> None:
    with Interrupts(), pytest.raises(KeyboardInterrupt):
        press()


def test_within_a_step_it_waits_for_its_end() -> None:
    made = []
    with Interrupts() as interrupts:

        def step() -> None:
            with interrupts.undivided():
                press()
                made.append("whole")

        with pytest.raises(KeyboardInterrupt):
            step()
    assert made == ["whole"]


def test_pressed_twice_within_a_step_it_waits_no_longer() -> None:
    made = []
    with Interrupts() as interrupts:

        def step() -> None:
            with interrupts.undivided():
                press()
                press()
                made.append("whole")

        with pytest.raises(KeyboardInterrupt):
            step()
    assert made == []


def test_an_error_within_a_step_is_not_hidden() -> None:
    with Interrupts() as interrupts:

        def step() -> None:
            with interrupts.undivided():
                press()
                raise ValueError("the step failed")

        with pytest.raises(ValueError, match="the step failed"):
            step()


def test_afterwards_everything_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize(
    ("number", "raised"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit), (signal.SIGHUP, SystemExit)],
)
def test_a_signal_whose_exception_gets_lost_still_ends_the_command(
    number: signal.Signals, raised: type[BaseException]
) -> None:
    before = signal.getsignal(number)
    with pytest.raises(raised), orderly_termination(), suppress(raised):  # as a destructor does
        signal.raise_signal(number)
    assert signal.getsignal(number) is before
