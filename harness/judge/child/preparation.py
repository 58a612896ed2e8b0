"""What a library's user does once with the inputs, such as packing weights, before the calls that are timed."""

from collections.abc import Callable, Sequence

import torch

Prepare = Callable[..., Sequence[torch.Tensor]]  # of the inputs: what takes their places
Tensors = Sequence[torch.Tensor]  # of a launch: its inputs, then its outputs


class Preparation:
    """Sets with prepared inputs in place of the given ones, always in the same memory; all as given without a rule."""

    def __init__(self, prepare: Prepare | None, given: Sequence[Tensors], inputs: int) -> None:
        self.prepare = prepare
        self.given = [each[:inputs] for each in given]
        self.sets = [each if prepare is None else (*prepare(*each[:inputs]), *each[inputs:]) for each in given]

    def again(self) -> None:
        """Prepare the inputs as they are now."""
        if self.prepare is None:
            return
        for inputs, made in zip(self.given, self.sets, strict=True):
            for old, new in zip(made, self.prepare(*inputs), strict=False):  # outputs follow in ``made``
                if old.data_ptr() != new.data_ptr():
                    old.copy_(new)
