# The judge and its environment, pinned. `make image` builds it, or plainly `docker build -t tilebench .`
#
# BASE_IMAGE: version and digest of NVIDIA's CUDA devel image, which brings nvcc and Nsight Compute; 13.0.3 is the
# toolkit that torch's CUDA build asks for. CUDA=0 leaves out the step of the CUDA packages, for a machine without a GPU.
ARG BASE_IMAGE=docker.io/nvidia/cuda:13.0.3-devel-ubuntu24.04@sha256:b7ae301dea2c162444795462ce17a05f6a516e5a75944b57af5b88540a1a2266
# hadolint ignore=DL3006
FROM ${BASE_IMAGE}

# apt's packages are those of this moment in the base's archive; empty for a base of another distribution, which then
# gives its present ones. /opt/tilebench/contents lists what came.
ARG SNAPSHOT=20261101T000000Z
# hadolint ignore=DL3008
RUN if [ -n "${SNAPSHOT}" ]; then echo "APT::Snapshot \"${SNAPSHOT}\";" > /etc/apt/apt.conf.d/50snapshot; fi \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
    ca-certificates g++ git make python3 python3-venv tini \
 && rm -rf /var/lib/apt/lists/* \
 && python3 -m venv /opt/venv

# CUDA's libraries are the locked ones, which torch finds by itself: the base's own cuBLAS on LD_LIBRARY_PATH would be
# loaded in their place, and the baseline would be another.
ENV PATH=/opt/venv/bin:${PATH} \
    LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /tilebench

# pip reads these by itself: a package index of your own, and wheels such as those of torch's build for the CPU.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS

# By far the largest layer, and the one that changes least.
ARG CUDA=1
COPY requirements-cuda.lock ./
RUN if [ "${CUDA}" = 1 ]; then \
      nvcc --version && ncu --version && pip install --quiet --require-hashes --no-deps --requirement requirements-cuda.lock; \
    fi

# Without the CUDA packages any build of torch's release will do, such as that for the CPU alone: it has other hashes.
COPY requirements.lock ./
RUN if [ "${CUDA}" = 1 ]; then cp requirements.lock /tmp/hashed; \
    else sed '/^torch==/,/[^\\]$/d' requirements.lock > /tmp/hashed \
      && pip install --quiet --no-deps "$(grep -o '^torch==[^ ]*' requirements.lock)"; fi \
 && pip install --quiet --require-hashes --no-deps --requirement /tmp/hashed \
 && rm /tmp/hashed \
 && pip check \
 && python3 -c 'import torch, tilelang'

# What else a user could install is measured beside the library: the extras of pyproject.toml, for a GPU alone. They are
# in no lock, so they are held to its versions without the hashes, which pip asks of all packages or of none.
ARG OPPONENTS=1
COPY pyproject.toml ./
COPY .ci/extras.py .ci/
RUN if [ "${CUDA}" = 1 ] && [ "${OPPONENTS}" = 1 ]; then \
      python3 .ci/extras.py opponents- > /opt/opponents.txt \
      && sed -n 's/^\([A-Za-z0-9][^ ]*\).*/\1/p' requirements.lock requirements-cuda.lock > /opt/pins \
      && pip install --quiet --constraint /opt/pins --requirement /opt/opponents.txt \
      && pip check; \
    fi

# What is in the image, by which a run names it that was not told the image's ID.
RUN mkdir /opt/tilebench \
 && { python3 -VV; dpkg-query --show; pip list --format=freeze; } > /opt/tilebench/contents

# Any user may run it, and the root file system may be read-only, as long as /tmp can be written.
ENV TILEBENCH_IMAGE=/opt/tilebench/contents \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1

COPY --chown=1000:1000 . .
RUN pip install --quiet --no-deps --no-build-isolation --editable .

# By these `harness run-in-docker` knows whether the image fits the checkout.
ARG PINS=unknown
LABEL tilebench.pins=${PINS}

USER 1000:1000
STOPSIGNAL SIGINT
# tini passes signals on to the whole group, and buries what killed contestants leave.
ENTRYPOINT ["tini", "-s", "-g", "--"]
CMD ["sh", "-c", "tilebench leaderboard --help && tilebench doctor"]
