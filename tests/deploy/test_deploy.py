"""What is under deploy/, and the Dockerfile: each read by its own tool, which finds what is broken on purpose."""

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import jsonschema
import kubernetes_validate
import pytest
import yaml
from docker.utils import exclude_paths

from harness.catalog.gpus import LEAST_DRIVER
from harness.cli.app import app
from harness.container.engine import IMAGE_GB
from harness.container.image import PINNED, Recipe

ROOT: Final = Path(__file__).resolve().parents[2]
JOB: Final = ROOT / "deploy" / "kubernetes.yaml"
BATCHES: Final = sorted((ROOT / "deploy").glob("*.sbatch"))
CHECKS: Final = [
    path
    for path in sorted((ROOT / ".ci").iterdir())
    if path.is_file() and path.read_bytes().startswith(b"#!/usr/bin/env bash")
]
SCRIPTS: Final = [*sorted((ROOT / "deploy").glob("*.sh")), *BATCHES, *CHECKS]
RAY: Final = ROOT / "deploy" / "raycluster.yaml"
SKY: Final = ROOT / "deploy" / "skypilot.yaml"
ARRAY: Final = ROOT / "deploy" / "slurm-array.sbatch"
APPTAINER: Final = ROOT / "deploy" / "slurm-apptainer.sbatch"
VERSUS: Final = ROOT / "deploy" / "github-versus.yaml"
WORKFLOWS: Final = [VERSUS, *sorted((ROOT / ".github" / "workflows").iterdir())]
VM: Final = ROOT / "deploy" / "vm.sh"
LOCKS: Final = [ROOT / "requirements.lock", ROOT / "requirements-cuda.lock"]
CONTEXT_LIMIT_BYTES: Final = 6 << 20  # without iterations and records, which grow with each board and are never cut

TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
COUNT: Final = {"type": "integer", "minimum": 0}
# KubeRay's own schema (ray.io/v1, 1.5 to 1.7) as far as the file uses it; Kubernetes' checks the pods within it.
RAY_CLUSTER: Final = {
    "type": "object",
    "required": ["headGroupSpec"],
    "additionalProperties": False,
    "properties": {
        "rayVersion": {"type": "string"},
        "authOptions": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"mode": {"enum": ["disabled", "token"]}},
        },
        "headGroupSpec": {
            "type": "object",
            "required": ["template"],
            "additionalProperties": False,
            "properties": {"rayStartParams": TEXTS, "template": {"type": "object"}},
        },
        "workerGroupSpecs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["groupName", "maxReplicas", "minReplicas", "template"],
                "additionalProperties": False,
                "properties": {
                    "groupName": {"type": "string"},
                    "replicas": COUNT,
                    "minReplicas": COUNT,
                    "maxReplicas": COUNT,
                    "rayStartParams": TEXTS,
                    "template": {"type": "object"},
                },
            },
        },
    },
}
# SkyPilot's schema of a task, as far as the file uses it.
SKY_TASK: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "workdir": {"type": "string"},
        "num_nodes": {"type": "integer"},
        "resources": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "accelerators": {"type": "string"},
                "cpus": {"type": ["string", "number"]},
                "memory": {"type": ["string", "number"]},
            },
        },
        "envs": TEXTS,
        "setup": {"type": "string"},
        "run": {"type": "string"},
    },
}
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
    notebook = {name for name in names if name.startswith("tuning/") and name.endswith((".jsonl", ".py"))}
    files = [path for name in names - notebook if (path := ROOT / name).is_file()]
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


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_github_takes_each_workflow(workflow: Path, tmp_path: Path) -> None:
    done = tool("check-jsonschema", "--builtin-schema", "vendor.github-workflows", workflow)
    assert (done.returncode, done.stdout) == (0, "ok -- validation done\n")
    (wrong := tmp_path / "wrong.yaml").write_text(workflow.read_text().replace("runs-on:", "runs-at:"))
    assert tool("check-jsonschema", "--builtin-schema", "vendor.github-workflows", wrong).returncode == 1


def test_the_workflow_runs_commands_that_there_are(tmp_path: Path) -> None:
    (job,) = yaml.safe_load(VERSUS.read_text())["jobs"].values()
    scripts = [step["run"] for step in job["steps"] if "run" in step]
    script = tmp_path / "steps.sh"
    script.write_text("#!/bin/bash\nset -e\n" + "\n".join(scripts))
    done = tool("shellcheck", script)
    assert (done.returncode, done.stdout) == (0, "")
    said = next(each for each in scripts if "tilebench versus" in each).replace("\\\n", " ")
    words = shlex.split(said.partition("tilebench versus ")[2].partition(" > ")[0])
    command, bound, *_ = app.parse_args(["versus", *words], exit_on_error=False, print_error=False)
    assert command.__name__ == "hold"
    assert {"old", "new", "build_only", "fail_on", "format"} <= bound.arguments.keys()
    target = next(each for each in scripts if "make " in each).split()
    assert f"\n{target[target.index('-C') + 2]}:" in (ROOT / "Makefile").read_text()


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


def ray_manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(RAY.read_text()))


def groups(cluster: dict[str, Any]) -> list[dict[str, Any]]:
    """The head and the groups of workers."""
    return [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]


def check_ray_cluster(cluster: dict[str, Any]) -> None:
    jsonschema.validate(cluster["spec"], RAY_CLUSTER)
    for group in groups(cluster):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, **group["template"]}
        kubernetes_validate.validate(pod, "1.37", strict=True)


def test_kubernetes_and_kuberay_take_the_ray_cluster() -> None:
    *plain, cluster = ray_manifests()
    for manifest in plain:
        kubernetes_validate.validate(manifest, "1.37", strict=True)
    assert [each["kind"] for each in plain] == ["PersistentVolumeClaim", "NetworkPolicy"]
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    check_ray_cluster(cluster)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('num-cpus: "0"', "num-cpus: 0"),
        ("mode: token", "mode: tokens"),
        ("minReplicas: 8", "minReplica: 8"),
        ("fsGroup: 1000", "fsgroup: 1000"),
        ("mountPath: /dev/shm }", "mountpath: /dev/shm }"),
    ],
)
def test_a_ray_cluster_that_is_broken_is_refused(right: str, wrong: str) -> None:
    text = RAY.read_text()
    assert right in text
    *_, cluster = yaml.safe_load_all(text.replace(right, wrong))
    with pytest.raises((kubernetes_validate.ValidationError, jsonschema.ValidationError)):
        check_ray_cluster(cluster)


def test_the_pods_of_the_ray_cluster_are_alike_and_have_no_rights() -> None:
    *_, policy, cluster = ray_manifests()
    head, workers = (group["template"]["spec"] for group in groups(cluster))
    assert workers["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert {each["image"] for pod in (head, workers) for each in pod["containers"]} == {
        "registry.example/tilebench:0.1.0"
    }
    for pod in (head, workers):
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert {each["name"] for each in container["volumeMounts"]} <= {each["name"] for each in pod["volumes"]}
        assert {"name": "RAY_worker_niceness", "value": "0"} in pod["containers"][0]["env"]
    assert policy["spec"]["podSelector"]["matchLabels"] == {"ray.io/cluster": cluster["metadata"]["name"]}
    assert f"rayVersion: {re.search(r'ray==([0-9.]+)', (ROOT / 'pyproject.toml').read_text())[1]}" in RAY.read_text()  # type: ignore[index]


def test_skypilot_takes_the_task() -> None:
    task = yaml.safe_load(SKY.read_text())
    jsonschema.validate(task, SKY_TASK)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(task | {"num_node": 2}, SKY_TASK)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(task | {"envs": {"GPU": 1}}, SKY_TASK)


@pytest.mark.parametrize("part", ["setup", "run"])
def test_shellcheck_finds_nothing_in_skypilots_task(part: str) -> None:
    done = tool("shellcheck", "--shell=bash", "-", text=yaml.safe_load(SKY.read_text())[part])
    assert (done.returncode, done.stdout) == (0, "")


def test_each_node_of_skypilot_takes_its_share(machine: "Machine", tmp_path: Path) -> None:
    machine.has("make")
    script = tmp_path / "run.sh"
    script.write_text(yaml.safe_load(SKY.read_text())["run"])
    for rank in range(2):
        machine.bash(script, GPU="h200", SKYPILOT_NODE_RANK=str(rank), SKYPILOT_NUM_NODES="2")
    assert machine.called("make") == [f"bench GPU=h200 GPUS=all ARGS=--share={each}/2" for each in (1, 2)]


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

TASK: Final = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "8"}


@pytest.fixture
def compute(machine: Machine, tmp_path: Path) -> Machine:
    machine.has("srun", f"ls -d {tmp_path}/tmp/* >{tmp_path}/during 2>/dev/null", "exit 7")
    for name in ("mktemp", "rm", "ls", "mkdir", "cp", "mv"):
        (machine.bin / name).symlink_to(str(shutil.which(name)))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tuning" / "h200").mkdir(parents=True)
    return machine


@pytest.mark.parametrize("script", BATCHES, ids=lambda path: path.name)
def test_srun_is_told_the_cores(compute: Machine, script: Path) -> None:
    done = compute.bash(script, SLURM_CPUS_PER_TASK="16", **TASK)
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


def test_each_task_of_an_array_has_its_share_and_a_notebook_of_its_own(compute: Machine, tmp_path: Path) -> None:
    compute.bash(ARRAY, SLURM_CPUS_PER_TASK="16", **TASK)
    notebook = tmp_path / "shares" / "7" / "3"
    assert sorted(path.name for path in notebook.parent.iterdir()) == ["3"]
    assert (notebook / "h200").is_dir()
    assert f"--bind {notebook}:/tilebench/tuning " in compute.called("srun")[0]
    assert compute.called("srun")[0].endswith(" make bench GPU=auto ARGS=--share=3/8")


def test_a_task_that_is_started_again_goes_on_in_its_notebook(compute: Machine, tmp_path: Path) -> None:
    notebook = tmp_path / "shares" / "7" / "3"
    (notebook.parent / "3.part" / "half").mkdir(parents=True)
    compute.bash(ARRAY, SLURM_CPUS_PER_TASK="16", **TASK)
    assert sorted(path.name for path in notebook.iterdir()) == ["h200"]
    (notebook / "measured").touch()
    compute.bash(ARRAY, SLURM_CPUS_PER_TASK="16", **TASK)
    assert sorted(path.name for path in notebook.iterdir()) == ["h200", "measured"]


# A cloud's virtual machine


@pytest.fixture
def fresh(machine: Machine) -> Machine:
    """Ubuntu 24.04, root's, with all that is needed."""
    machine.has("id", "echo 0")
    for name in ("git", "make", "docker", "python3", "apt-get", "apt-cache"):
        machine.has(name)
    machine.has("df", "echo Avail", "echo 100")
    (machine.bin / "tail").symlink_to(str(shutil.which("tail")))
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


def offers(machine: Machine, *packages: str) -> None:
    machine.has("apt-cache", *(f'[ "$2" = {package} ] && exit 0' for package in packages), "exit 100")


def test_an_older_python_gets_another_beside_it(fresh: Machine) -> None:
    has_python_of_ubuntu_2204(fresh)
    offers(fresh, "python3.11-venv")
    done = fresh.bash(VM, TILEBENCH_REPOSITORY="somewhere", HOME="/home/me")
    assert (done.returncode, done.stderr) == (0, "")
    assert [call.split("-qq ")[1] for call in fresh.called("env")] == ["python3.11 python3.11-venv"]
    assert fresh.called("make") == ["-C /home/me/tilebench docker-bench GPU=auto PYTHON=python3.11"]


def test_another_that_is_there_already_is_taken(fresh: Machine) -> None:
    has_python_of_ubuntu_2204(fresh)
    fresh.has("python3.12")
    fresh.bash(VM, TILEBENCH_REPOSITORY="somewhere")
    assert not fresh.called("env")
    assert fresh.called("make")[0].endswith(" PYTHON=python3.12")


def test_where_apt_has_no_other_uv_brings_one(fresh: Machine, tmp_path: Path) -> None:
    """The old Python makes an environment; its uv installs and names the new one."""
    scripts = tmp_path / ".tilebench-uv" / "bin"
    made = f"mkdir -p {scripts}; ln -sf {fresh.bin}/uv {fresh.bin}/python {scripts}/"
    fresh.has("python3", 'case "$2" in *version_info*) exit 1 ;; esac', f'[ "$2" = venv ] && {{ {made}; }}; exit 0')
    fresh.has("python")
    fresh.has("uv", f'[ "$2" = find ] && echo {tmp_path}/python3.12', "exit 0")
    for name in ("mkdir", "ln"):
        (fresh.bin / name).symlink_to(str(shutil.which(name)))
    offers(fresh)
    done = fresh.bash(VM, TILEBENCH_REPOSITORY="somewhere", HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert [call.split("-qq ")[1] for call in fresh.called("env")] == ["python3-venv"]
    assert re.fullmatch(r"-m pip install -qq uv==[0-9.]+", fresh.called("python")[0])
    assert fresh.called("uv") == ["python install --quiet 3.12", "python find 3.12"]
    assert fresh.called("make")[0].endswith(f" PYTHON={tmp_path}/python3.12")


@pytest.mark.parametrize(("driver", "refused"), [("570.86.15", True), ("580.65.06", False), ("610.1", False)])
def test_an_old_driver_is_refused_before_anything_is_installed(fresh: Machine, driver: str, refused: bool) -> None:
    fresh.has("nvidia-smi", f"echo {driver}")
    fresh.has("nvidia-ctk")
    fresh.has("grep")
    done = fresh.bash(VM, TILEBENCH_REPOSITORY="somewhere")
    assert done.returncode == int(refused), done.stderr
    assert bool(fresh.called("make")) is not refused
    if refused:
        assert done.stderr.startswith("vm.sh: the NVIDIA driver is 570, and CUDA 13 needs 580 or newer")
        assert not fresh.called("apt-get") + fresh.called("env") + fresh.called("git")
        assert fresh.bash(VM, TILEBENCH_REPOSITORY="somewhere", GPU="cpu").returncode == 0


def test_a_named_gpu_without_a_driver_is_refused_before_anything_is_installed(fresh: Machine) -> None:
    done = fresh.bash(VM, TILEBENCH_REPOSITORY="somewhere", GPU="h100")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("vm.sh: GPU=h100 needs the NVIDIA driver")
    assert not fresh.called("apt-get") + fresh.called("git") + fresh.called("make")


def test_a_small_disk_is_refused_before_anything_is_installed(fresh: Machine) -> None:
    fresh.has("df", "echo Avail", "echo 9")
    done = fresh.bash(VM, TILEBENCH_REPOSITORY="somewhere")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "9 GB are free at /" in done.stderr and f"the image takes {IMAGE_GB} GB" in done.stderr
    assert not fresh.called("apt-get") + fresh.called("git")


def test_driver_and_size_are_the_same_everywhere() -> None:
    """The driver that torch's CUDA needs, and the size of the image: in the script, the Makefile and the pages."""
    least = LEAST_DRIVER[13]
    assert f"least_driver={least} " in VM.read_text() and f"image_gb={IMAGE_GB}\n" in VM.read_text()
    assert f"LEAST_DRIVER := {least}\n" in (ROOT / "Makefile").read_text()
    assert f"driver {least} or newer" in (ROOT / "README.md").read_text()
    page = (ROOT / "docs" / "how-to" / "cloud-gpu.md").read_text()
    assert f"driver {least} or newer" in page and f"{IMAGE_GB} GB" in page


# The locks


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_each_pin_has_hashes_that_pip_reads(lock: Path) -> None:
    entries = re.split(r"(?<!\\)\n", lock.read_text())
    pins = [each.replace("\\\n", "") for each in entries if each[:1].isalnum()]
    assert len(pins) > 15
    form = re.compile(r"[\w.-]+==[\w.!]+( +--hash=sha256:[0-9a-f]{64})+")
    assert [pin for pin in pins if form.fullmatch(pin) is None] == []


def test_the_environment_is_held_to_the_versions_without_their_hashes(tmp_path: Path) -> None:
    """pip refuses an editable install where a constraint has a hash."""
    rule = re.search(r"^PINS = (.*)\$\(LOCKS\)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert rule is not None
    command = [*shlex.split(rule[1]), *map(str, LOCKS)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    named = [line.split()[0] for lock in LOCKS for line in lock.read_text().splitlines() if line[:1].isalnum()]
    assert lines == named and all(re.fullmatch(r"[\w.-]+==[\w.!]+", line) for line in lines)


@pytest.mark.parametrize(
    ("file", "fits"),
    [
        ("numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl", True),
        ("torch-2.13.0-cp313-cp313-manylinux_2_28_aarch64.whl", True),
        ("z3_solver-4.15.4.0-py3-none-manylinux_2_17_x86_64.whl", True),
        ("ruff-0.17.5-py3-none-any.whl", True),
        ("pyzmq-1.0-cp38-abi3-manylinux2014_x86_64.whl", True),
        ("numpy-2.4.6-cp313-cp313t-manylinux_2_28_x86_64.whl", False),
        ("numpy-2.4.6-cp310-cp310-manylinux_2_28_x86_64.whl", False),
        ("numpy-2.4.6-cp311-cp311-musllinux_1_2_x86_64.whl", False),
        ("numpy-2.4.6-cp311-cp311-macosx_14_0_arm64.whl", False),
        ("numpy-2.4.6-cp311-cp311-win_amd64.whl", False),
        ("numpy-2.4.6.tar.gz", False),
    ],
)
def test_the_lock_holds_the_files_that_linux_may_install(file: str, fits: bool) -> None:
    spec = importlib.util.spec_from_file_location("lock", ROOT / ".ci" / "lock.py")
    assert spec is not None and spec.loader is not None
    lock = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lock)
    assert lock.fits(f"https://somewhere/packages/{file}") is fits


def test_the_image_takes_no_file_with_another_hash() -> None:
    """But torch, where the CUDA packages are left out, the opponents, which are in no lock, and the checkout itself."""
    installs = re.findall(r"pip install [^;&\n\\]*", (ROOT / "Dockerfile").read_text())
    torch, opponents, own = (each for each in installs if "--require-hashes" not in each)
    assert "torch==" in torch and "--editable ." in own
    assert "--requirement /opt/opponents.txt" in opponents and ".lock" not in opponents
    assert len(installs) == 5


def test_without_cuda_all_but_torch_keeps_its_hashes() -> None:
    """The Dockerfile's own command takes the pin of torch out, and no other."""
    command = re.search(r"(sed '/\^torch.*?') requirements.lock", (ROOT / "Dockerfile").read_text())
    assert command is not None
    left = subprocess.run([*shlex.split(command[1]), str(LOCKS[0])], capture_output=True, text=True, check=True).stdout
    gone = set(LOCKS[0].read_text().splitlines()) - set(left.splitlines())
    assert {line.split()[0] for line in gone if line[:1].isalnum()} == {f"torch=={version('torch').partition('+')[0]}"}
    assert all("sha256" in line for line in gone if not line[:1].isalnum())


# The workflow


def test_the_workflow_pushes_the_image_with_its_packages_and_provenance() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "image.yml").read_text())["jobs"]
    said = "\n".join(step.get("run", "") for step in jobs["image"]["steps"])
    assert "--sbom=true" in said and "--provenance=mode=max" in said and "docker buildx create" in said
    assert jobs["image"]["needs"] == "checks"
    for step in (step for job in jobs.values() for step in job["steps"]):
        assert "uses" not in step or re.fullmatch(r"\S+@[0-9a-f]{40}", step["uses"]), (
            "an action is pinned by its commit"
        )
