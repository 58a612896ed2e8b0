#!/usr/bin/env bash
# Sets up a fresh cloud VM (Debian or Ubuntu) and measures. Run it by hand, or as cloud-init user data that exports both:
#
#   TILEBENCH_REPOSITORY=<where this repository is> GPU=h100 bash vm.sh
#
# A cloud's GPU image has the driver, Docker and the NVIDIA runtime. This script checks the driver and the disk first,
# then installs the missing packages.
set -euo pipefail
export HOME="${HOME:-/root}" # cloud-init sets none

repository=${TILEBENCH_REPOSITORY:?name the repository to clone}
folder=${TILEBENCH_FOLDER:-$HOME/tilebench}
gpu=${GPU:-auto}
least_driver=580 # of CUDA 13
image_gb=15
uv=uv==0.13.9

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
give_up() {
    echo "vm.sh: $*" >&2
    exit 1
}

if [ "$gpu" != cpu ]; then
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null) || driver=
    driver=${driver%%.*}
    if [ -z "$driver" ] && [ "$gpu" != auto ]; then
        give_up "GPU=$gpu needs the NVIDIA driver, and nvidia-smi names none: install $least_driver or newer, or set GPU=cpu"
    fi
    if [ -n "$driver" ] && [ "$driver" -lt "$least_driver" ]; then
        give_up "the NVIDIA driver is $driver, and CUDA 13 needs $least_driver or newer: update it, or set GPU=cpu"
    fi
fi
disk=/var/lib/docker
[ -d "$disk" ] || disk=/
free_gb=$(df --output=avail --block-size=1000000000 "$disk" | tail -n 1)
if [ "$free_gb" -lt "$image_gb" ]; then
    give_up "$free_gb GB are free at $disk, and the image takes $image_gb GB: free some, or take a larger disk"
fi

packages=()
command -v git >/dev/null || packages+=(git)
command -v make >/dev/null || packages+=(make)
command -v docker >/dev/null || packages+=(docker.io)
if nvidia-smi >/dev/null 2>&1 && ! command -v nvidia-ctk >/dev/null; then
    packages+=(nvidia-container-toolkit) # a cloud's GPU image has NVIDIA's apt repository
fi

# A Python of 3.11 or newer with its venv module: an installed one, else apt's, else one that uv installs.
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
has_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }
python=
for each in python3 python3.13 python3.12 python3.11; do
    if new_enough "$each" && has_venv "$each"; then
        python=$each
        break
    fi
done
if [ -z "$python" ] || [ "${#packages[@]}" -gt 0 ]; then as_root apt-get update -qq; fi
if [ -z "$python" ] && new_enough python3; then
    python=python3
    packages+=(python3-venv)
fi
for each in python3.13 python3.12 python3.11; do
    if [ -z "$python" ] && apt-cache show "$each-venv" >/dev/null 2>&1; then
        python=$each
        packages+=("$each" "$each-venv")
    fi
done
[ -n "$python" ] || packages+=(python3-venv) # the old one, to install uv with
if [ "${#packages[@]}" -gt 0 ]; then
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${packages[@]}"
fi
if [ -z "$python" ]; then
    python3 -m venv "$HOME/.tilebench-uv"
    "$HOME/.tilebench-uv/bin/python" -m pip install -qq "$uv"
    "$HOME/.tilebench-uv/bin/uv" python install --quiet 3.12
    python=$("$HOME/.tilebench-uv/bin/uv" python find 3.12)
fi
if command -v nvidia-ctk >/dev/null && ! as_root docker info --format '{{json .Runtimes}}' | grep -q '"nvidia"'; then
    as_root nvidia-ctk runtime configure --runtime=docker
    as_root systemctl restart docker
fi

[ -d "$folder" ] || git clone --depth 1 "$repository" "$folder"
# sudo: a user who joined the group docker must log in again first. The records belong to the folder's owner.
as_root make -C "$folder" docker-bench "GPU=$gpu" "PYTHON=$python"
