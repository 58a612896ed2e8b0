#!/usr/bin/env bash
# Takes a fresh cloud VM (Debian or Ubuntu) to a leaderboard. Run it by hand, or as cloud-init user data with both exported:
#
#   TILEBENCH_REPOSITORY=<where this repository is> GPU=h100 bash vm.sh
#
# A cloud's GPU image has the driver, Docker and the NVIDIA runtime. This script installs what else is missing.
set -euo pipefail
export HOME="${HOME:-/root}" # cloud-init sets none

repository=${TILEBENCH_REPOSITORY:?name the repository to clone}
folder=${TILEBENCH_FOLDER:-$HOME/tilebench}
gpu=${GPU:-auto}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

packages=()
command -v git >/dev/null || packages+=(git)
command -v make >/dev/null || packages+=(make)
command -v docker >/dev/null || packages+=(docker.io)
python=python3
if command -v python3 >/dev/null && ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    python=python3.11 # Ubuntu 22.04's own Python is 3.10
fi
"$python" -c 'import ensurepip, venv' 2>/dev/null || packages+=("$python" "$python-venv")
if nvidia-smi >/dev/null 2>&1 && ! command -v nvidia-ctk >/dev/null; then
    packages+=(nvidia-container-toolkit) # a cloud's GPU image has NVIDIA's apt repository
fi
if [ "${#packages[@]}" -gt 0 ]; then
    as_root apt-get update -qq
    if [[ " ${packages[*]} " == *" python3.11 "* ]] && ! apt-cache show python3.11-venv >/dev/null 2>&1; then
        echo "vm.sh: python3 is older than 3.11 and apt offers no python3.11 with venv: install both, then run this again" >&2
        exit 1
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${packages[@]}"
fi
if command -v nvidia-ctk >/dev/null && ! as_root docker info --format '{{json .Runtimes}}' | grep -q '"nvidia"'; then
    as_root nvidia-ctk runtime configure --runtime=docker
    as_root systemctl restart docker
fi

[ -d "$folder" ] || git clone --depth 1 "$repository" "$folder"
# sudo: a user who joined the group docker must log in again first. The records belong to the folder's owner.
as_root make -C "$folder" docker-bench "GPU=$gpu" "PYTHON=$python"
