"""A stand-in for ncu on PATH: it speaks like the real one, and fails in the way that FAKE_NCU names.

The program that it is to profile is not run, except for ``runs``: it answers in its place, as if it had found the
kernels of FAKE_KERNELS. What it writes as a report is the CSV that it prints when it imports it.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def program_answers(reason: str | None = None) -> None:
    """What the launching program would have left."""
    job = json.loads(Path(sys.argv[-1]).read_text())
    names = os.environ.get("FAKE_KERNELS", "main_kernel").split(",")
    outcome = {"kernels": names, "seconds": {"import": 1.0}}
    if reason is not None:
        outcome |= {"cause": "wrong_result", "reason": reason}
    Path(job["outcome"]).write_text(json.dumps(outcome))


def profile(how: str) -> int:
    report = Path(option("--export"))
    print(f"==PROF== Connected to process {os.getpid()} (/usr/bin/python3.12)", flush=True)
    if how == "permission":
        print(
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters "
            "on the target device 0. For instructions on enabling permissions and to get more information see "
            "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
        )
        program_answers()
        print("==PROF== Disconnected\n==WARNING== No kernels were profiled.")
        return 0
    if how == "busy":
        print("==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like")
        print("==ERROR== DCGM) is concurrently collecting profiling data.")
        program_answers()
        return 1
    if how == "hangs":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        (report.parent / "child.pid").write_text(str(child.pid))
        time.sleep(600)
    if how == "crash":
        print("CUDA error: an illegal memory access was encountered", file=sys.stderr)
        print("==ERROR== The application returned an error code (11).")
        return 11
    if how == "wrong":
        program_answers("profiled inputs trial: max_abs_err=1 is over 0.01")
        print("==WARNING== No kernels were profiled.")
        return 0
    if how == "nothing":
        program_answers()
        print("==ERROR== Failed to write the report" if os.environ.get("FAKE_SAYS") else "==PROF== Disconnected")
        return 0
    if how == "runs":
        done = subprocess.run(sys.argv[sys.argv.index("--force-overwrite") + 1 :], check=False)
        if done.returncode:
            return done.returncode
    else:
        program_answers()
    report.write_bytes(Path(os.environ["FAKE_REPORT"]).read_bytes())
    print(f"==PROF== Report: {report}")
    return 0


def main() -> int:
    if "--version" in sys.argv:
        print("NVIDIA (R) Nsight Compute Command Line Profiler")
        print("Version 2025.3.1.0 (build 36398880) (public-release)")
        return 0
    how = os.environ.get("FAKE_NCU", "good")
    with Path(os.environ["FAKE_LOG"]).open("a") as log:
        log.write(" ".join(sys.argv[1:]) + "\n")
    if "--import" not in sys.argv:
        return profile(how)
    if how == "import_fails":
        print(f"==ERROR== Failed to import {option('--import')}")
        return 1
    text = Path(option("--import")).read_text()
    print(text[: len(text) // 2] if how == "cut" else text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
