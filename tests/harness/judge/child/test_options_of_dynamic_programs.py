"""What a dynamic program is hashed with is what it is compiled with."""

from collections import UserDict
from collections.abc import Iterator
from typing import Any

import pytest
import tvm_ffi

from harness.judge.child.levers import plain
from harness.judge.facts.program import Program


class _Flags(tuple[str, ...]):
    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        return iter(("-DROWS=8",))

    def __repr__(self) -> str:
        return "()"


class _Configs(UserDict[str, object]):
    def items(self) -> Any:
        return ()


class _Name(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "M"


def test_options_of_classes_of_its_own_become_literals() -> None:
    made = plain(Program(None, _Configs(tl_some=True), _Flags(), dynamic=(_Name("Q"),)))
    assert isinstance(made, Program)
    assert (made.pass_configs, made.compile_flags, made.dynamic) == ({"tl_some": True}, ("-DROWS=8",), ("Q",))
    assert {type(each) for each in (made.pass_configs, made.compile_flags, *made.dynamic)} == {dict, tuple, str}


def test_a_dynamic_source_is_not_rewritten() -> None:
    name = "tilelang_callback_c_host_postproc"
    tvm_ffi.register_global_func(name, f=lambda code, target: code)
    try:
        with pytest.raises(TypeError, match="register no post-processing"):
            plain(Program(None, dynamic=("M",)))
    finally:
        tvm_ffi.registry.remove_global_func(name)
