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
CONTEXT_LIMIT_BYTES: Final = 8 << 20

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
    assert {*PINNED, "Makefile", "noxfile.py", "harness/pipeline.py", "kernels/gemm/__init__.py"} <= names
    assert not any(name.startswith((".venv", ".git/", ".mypy_cache")) or "__pycache__" in name for name in names)
    assert sum(path.stat().st_size for name in names if (path := ROOT / name).is_file()) < CONTEXT_LIMIT_BYTES


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
