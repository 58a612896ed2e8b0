"""ptxas's figures are read from what it prints, kernel by kernel."""

from harness.judge.facts.ptxas import Usage, remarks, usage

LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'main_kernel' for 'sm_90a'
ptxas info    : Function properties for main_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 10 barriers, 1024 bytes smem
ptxas info    : Compile time = 129.712 ms
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to \
insufficient register resources for the wgmma pipeline in the function 'spilly'
ptxas info    : Compiling entry function 'spilly' for 'sm_90a'
ptxas info    : Function properties for helper
    8 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Function properties for spilly
    216 bytes stack frame, 1532 bytes spill stores, 2108 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 216 bytes cumulative stack size
"""


def test_each_kernel_has_its_figures_and_those_of_what_it_calls() -> None:
    assert usage(LOG) == {
        "main_kernel": Usage(registers=168, barriers=10, static_shared_bytes=1024),
        "spilly": Usage(32, 224, 1536, 2116, 0, 1),
    }


def test_a_remark_is_said_once_and_without_the_function() -> None:
    said = "Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register"
    assert remarks(LOG + LOG) == (f"{said} resources for the wgmma pipeline",)


def test_a_log_that_says_nothing_gives_nothing() -> None:
    assert usage("") == {}
    assert usage("ptxas info    : Used 8 registers") == {}
    assert remarks("") == ()
