"""A library may prepare its inputs outside what is timed; an iteration may not."""

import socket
import threading
from contextlib import suppress
from multiprocessing.connection import Connection

import pytest
import torch

from harness.judge.child.preparation import Preparation
from harness.judge.child.side import ServedSide
from harness.judge.messages import Message, Prepare, Ready, Renew, receive, send

NOBODY = 2**22 + 1  # no process has this number


def doubled(x: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x, weights * 2


def test_prepared_inputs_follow_new_ones_in_the_same_memory() -> None:
    x, weights, out = torch.ones(3), torch.ones(3), torch.zeros(3)
    preparation = Preparation(doubled, [(x, weights, out)], 2)
    ((same_x, made, same_out),) = preparation.sets
    assert same_x is x
    assert same_out is out
    assert made.tolist() == [2, 2, 2]
    address = made.data_ptr()

    weights.fill_(5)
    preparation.again()
    assert made.tolist() == [10, 10, 10]
    assert made.data_ptr() == address


def test_inputs_stay_where_nothing_prepares_them() -> None:
    given = (torch.ones(3), torch.zeros(3))
    preparation = Preparation(None, [given], 1)
    preparation.again()
    assert preparation.sets == [given]


@pytest.mark.parametrize("may_prepare", [True, False])
def test_only_a_side_that_may_is_asked_to_prepare(may_prepare: bool) -> None:
    """An iteration that says it prepares would get time with the new inputs that no clock counts."""
    ours, theirs = socket.socketpair()
    heard: list[Message] = []

    def answer(channel: Connection) -> None:
        with suppress(EOFError):
            while True:
                heard.append(receive(channel, Prepare | Renew))
                send(channel, Ready(prepares=True))

    with Connection(theirs.detach()) as channel:
        process = threading.Thread(target=answer, args=(channel,))
        process.start()
        with Connection(ours.detach()) as referee:
            side = ServedSide("contestant", referee, NOBODY, 10.0, cpu=False, may_prepare=may_prepare)
            side.prepare((), "graph")
            side.renew()
        process.join()
    assert [type(each) for each in heard] == [Prepare, Renew][: 1 + may_prepare]
