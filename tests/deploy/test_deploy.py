"""What is under deploy/, and the Dockerfile: each read by its own tool, which finds what is broken on purpose."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml
from docker.utils import exclude_paths

from harness.container.image import PINNED, Recipe

ROOT: Final = Path(__file__).resolve().parents[2]
JOB: Final = ROOT / "deploy" / "kubernetes.yaml"
BATCHES: Final = sorted((ROOT / "deploy").glob("*.sbatch"))
SCRIPTS: Final = [*sorted((ROOT / "deploy").glob("*.sh")), *BATCHES, ROOT / ".ci" / "run", ROOT / ".ci" / "container"]
APPTAINER: Final = ROOT / "deploy" / "slurm-apptainer.sbatch"
VM: Final = ROOT / "deploy" / "vm.sh"
CONTEXT_LIMIT_BYTES: Final = 4 << 20  # without the records, which grow with each board and are never cut

SLURM: Final = """ClusterName=none
SlurmctldHost=localhost
AuthType=auth/none
CryptoType=crypto/none
SelectType=select/cons_tres
GresTypes=gpu
MessageTimeout=1
NodeName=localhost CPUs=64 RealMemory=128000 Gres=gpu:1
PartitionName=all Nodes=localhost Default=YES
"""


def tool(name: str, *arguments: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """A program of this environment."""
    program = Path(sys.executable).with_name(name)
    return subprocess.run([program, *arguments], input=text, capture_output=True, text=True, timeout=60, check=False)


# The Dockerfile


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    done = tool("hadolint", "--no-color", ROOT / "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")


def test_hadolint_finds_what_is_wrong() -> None:
    broken = (ROOT / "Dockerfile").read_text().replace("WORKDIR /tilebench", "RUN cd /tilebench")
    assert "DL3003" in tool("hadolint", "--no-color", "-", text=broken).stdout


def test_the_base_is_pinned_by_version_and_digest() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert re.search(r"^ARG BASE_IMAGE=\S+/nvidia/cuda:13\.0\.\d-devel-ubuntu24\.04@sha256:[0-9a-f]{64}$", text, re.M)
    assert re.search(r"^FROM \$\{BASE_IMAGE\}$", text, re.M)
    assert "HEALTHCHECK" not in text


def test_the_context_is_small_and_holds_what_the_image_is_built_from() -> None:
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in patterns if line and not line.startswith("#")]
    names = exclude_paths(str(ROOT), patterns)
    assert {*PINNED, "Makefile", "noxfile.py", "harness/judge/pipeline.py", "kernels/gemm/__init__.py"} <= names
    assert not any(name.startswith((".venv", ".git/", ".mypy_cache")) or "__pycache__" in name for name in names)
    files = [path for name in names if (path := ROOT / name).is_file() and path.name != "results.jsonl"]
    assert sum(path.stat().st_size for path in files) < CONTEXT_LIMIT_BYTES


def test_each_step_of_the_dockerfile_is_counted() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    commands = {"ARG", "FROM", "RUN", "ENV", "WORKDIR", "COPY", "LABEL", "USER", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
    assert Recipe(ROOT).steps() == sum(line.split(" ")[0] in commands for line in lines)


# Shell scripts, Kubernetes, Slurm


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_finds_nothing(script: Path) -> None:
    done = tool("shellcheck", script)
    assert (done.returncode, done.stdout) == (0, "")


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(JOB.read_text()))


def test_kubernetes_takes_each_manifest() -> None:
    found = manifests()
    for manifest in found:
        kubernetes_validate.validate(manifest, "1.37", strict=True)
    assert [each["kind"] for each in found] == ["PersistentVolumeClaim", "NetworkPolicy", "Job"]


@pytest.mark.parametrize(("key", "value"), [("backofLimit", 0), ("backoffLimit", "none"), ("template", {"spec": {}})])
def test_kubernetes_refuses_a_manifest_that_is_broken(key: str, value: object) -> None:
    job = manifests()[-1]
    job["spec"][key] = value
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, "1.37", strict=True)


def test_the_job_has_one_gpu_and_no_rights() -> None:
    pod = manifests()[-1]["spec"]["template"]["spec"]
    bench = pod["containers"][0]
    assert bench["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert pod["securityContext"]["runAsNonRoot"]
    for container in (*pod["initContainers"], bench):
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"]
        assert not rights["allowPrivilegeEscalation"]
        assert rights["capabilities"] == {"drop": ["ALL"]}
    mounted = {each["mountPath"] for each in bench["volumeMounts"]}
    assert mounted == {"/tilebench/tuning", "/tmp", "/dev/shm"}
    assert {each["name"] for each in bench["volumeMounts"]} == {each["name"] for each in pod["volumes"]}


def test_all_containers_have_the_same_cores_and_memory() -> None:
    """Else the pod is burstable, and a static CPU manager gives it no cores of its own."""
    pod = manifests()[-1]["spec"]["template"]["spec"]
    shares = []
    for container in (*pod["initContainers"], *pod["containers"]):
        assert "requests" not in container["resources"]  # they are the limits then
        shares.append({key: container["resources"]["limits"][key] for key in ("cpu", "memory")})
    assert shares == [{"cpu": "16", "memory": "64Gi"}] * 2


def submitted(script: Path, tmp_path: Path) -> str:
    """What sbatch says of a script: its own parser reads the options before it looks for a controller."""
    if shutil.which("sbatch") is None:
        pytest.skip("sbatch is not installed; .ci/container installs it (Debian: slurm-client)")
    configuration = tmp_path / "slurm.conf"
    configuration.write_text(SLURM)
    done = subprocess.run(
        ["sbatch", "--test-only", str(script)],
        env={"SLURM_CONF": str(configuration), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stderr


@pytest.mark.parametrize("script", BATCHES, ids=lambda path: path.name)
def test_sbatch_reads_the_options(script: Path, tmp_path: Path) -> None:
    assert "ontact" in submitted(script, tmp_path)  # it only lacks a controller


@pytest.mark.parametrize(
    ("right", "wrong"), [("--gpus=1", "--gpu=1"), ("--time=00:30:00", "--time=soon"), ("--mem=64G", "--mem=much")]
)
def test_sbatch_refuses_options_that_are_broken(right: str, wrong: str, tmp_path: Path) -> None:
    script = tmp_path / "job.sbatch"
    script.write_text(BATCHES[0].read_text().replace(right, wrong))
    said = submitted(script, tmp_path)
    assert "ontact" not in said
    assert re.search(r"unrecognized option|ambiguous|Invalid", said)


class Machine:
    """A PATH with programs that write down their arguments."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "log"
        self.bin = folder / "bin"
        self.bin.mkdir()

    def has(self, name: str, *lines: str) -> None:
        """A program that, once it is written down, does ``lines``."""
        program = self.bin / name
        program.write_text("\n".join(("#!/bin/sh", f'echo "{name} $*" >>{self._log}', *lines, "")))
        program.chmod(0o755)

    def bash(self, script: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/bash", script],
            env={"PATH": str(self.bin), **variables},
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def called(self, name: str) -> list[str]:
        """The arguments of each call of a program."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# A node of Slurm


@pytest.fixture
def compute(machine: Machine, tmp_path: Path) -> Machine:
    machine.has("srun", f"ls -d {tmp_path}/tmp/* >{tmp_path}/during 2>/dev/null", "exit 7")
    for name in ("mktemp", "rm", "ls"):
        (machine.bin / name).symlink_to(str(shutil.which(name)))
    (tmp_path / "tmp").mkdir()
    return machine


@pytest.mark.parametrize("script", BATCHES, ids=lambda path: path.name)
def test_srun_is_told_the_cores(compute: Machine, script: Path) -> None:
    done = compute.bash(script, SLURM_CPUS_PER_TASK="16")
    assert (done.returncode, done.stderr) == (7, "")
    assert [call.split()[0] for call in compute.called("srun")] == ["--cpus-per-task=16"]


def test_apptainer_keeps_its_scratch_on_the_disk_and_removes_it(compute: Machine, tmp_path: Path) -> None:
    done = compute.bash(APPTAINER, SLURM_CPUS_PER_TASK="16", TMPDIR=str(tmp_path / "tmp"))
    workdir = (tmp_path / "during").read_text().strip()
    assert done.returncode == 7
    assert f"--workdir {workdir} " in compute.called("srun")[0]
    assert Path(workdir).parent == tmp_path / "tmp"
    assert not Path(workdir).exists()


def test_apptainer_passes_on_which_gpu_slurm_gives(compute: Machine) -> None:
    compute.bash(APPTAINER, SLURM_CPUS_PER_TASK="16", CUDA_VISIBLE_DEVICES="3")
    compute.bash(APPTAINER, SLURM_CPUS_PER_TASK="16")
    given, free = compute.called("srun")
    assert " --env CUDA_VISIBLE_DEVICES=3 --bind " in given
    assert "--env" not in free


# A cloud's virtual machine


@pytest.fixture
def fresh(machine: Machine) -> Machine:
    """Ubuntu 24.04, root's, with all that is needed."""
    machine.has("id", "echo 0")
    for name in ("git", "make", "docker", "python3", "apt-get", "apt-cache"):
        machine.has(name)
    machine.has("env", "exit 0")
    return machine


def has_python_of_ubuntu_2204(machine: Machine) -> None:
    machine.has("python3", 'case "$2" in *version_info*) exit 1 ;; esac')


def test_a_fresh_machine_needs_no_home(fresh: Machine) -> None:
    done = fresh.bash(VM, TILEBENCH_REPOSITORY="somewhere")
    assert (done.returncode, done.stderr) == (0, "")
    assert fresh.called("git") == ["clone --depth 1 somewhere /root/tilebench"]
    assert fresh.called("make") == ["-C /root/tilebench docker-bench GPU=auto PYTHON=python3"]
    assert not fresh.called("env")


def test_an_older_python_gets_another_beside_it(fresh: Machine) -> None:
    has_python_of_ubuntu_2204(fresh)
    done = fresh.bash(VM, TILEBENCH_REPOSITORY="somewhere", HOME="/home/me")
    assert (done.returncode, done.stderr) == (0, "")
    assert [call.split("-qq ")[1] for call in fresh.called("env")] == ["python3.11 python3.11-venv"]
    assert fresh.called("make") == ["-C /home/me/tilebench docker-bench GPU=auto PYTHON=python3.11"]


def test_another_that_is_there_already_is_taken(fresh: Machine) -> None:
    has_python_of_ubuntu_2204(fresh)
    fresh.has("python3.11")
    fresh.bash(VM, TILEBENCH_REPOSITORY="somewhere")
    assert not fresh.called("env")
    assert fresh.called("make")[0].endswith(" PYTHON=python3.11")


def test_where_apt_has_no_other_one_line_says_so(fresh: Machine) -> None:
    has_python_of_ubuntu_2204(fresh)
    fresh.has("apt-cache", "exit 100")
    done = fresh.bash(VM, TILEBENCH_REPOSITORY="somewhere")
    assert done.returncode == 1
    assert done.stderr.startswith("vm.sh: python3 is older than 3.11")
    assert done.stderr.count("\n") == 1
    assert not fresh.called("env") + fresh.called("make")
