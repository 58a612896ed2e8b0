"""Verbs of the container: image, run-in-docker."""

from itertools import pairwise
from typing import Annotated

from cyclopts import Parameter

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli.app import app, emit
from harness.container import engine, image, sandbox
from harness.errors import ExitCode, UsageError
from harness.machine.nvml import devices
from harness.machine.progress import console, reporting


@app.command(name="image")
def build_image(
    *,
    name: Annotated[str, Parameter(help="The image's name.")] = image.NAME,
    base: Annotated[str | None, Parameter(help="Another base image than the Dockerfile's.")] = None,
    cuda: Annotated[bool, Parameter(help="Install the CUDA packages.")] = True,
    network: Annotated[str | None, Parameter(help="Docker's network while building, such as host.")] = None,
    json: Annotated[bool, Parameter(negative="", help="One JSON document on stdout, all else on stderr.")] = False,
) -> ExitCode:
    """Build the container image from the checkout's Dockerfile."""
    recipe = image.Recipe(Tree.here().root, name, base, cuda, network)
    with engine.connected() as client, reporting(recipe.steps()) as reporter:
        built = image.build(client, recipe, reporter)
    if json:
        emit({"name": name, "id": built.id, "size_bytes": built.attrs["Size"]})
    else:
        print(f"{name} {built.id}, {built.attrs['Size'] / 1e9:.1f} GB")
    return ExitCode.PASSED


@app.command(name="run-in-docker")
def run_in_docker(
    *words: Annotated[str, Parameter(help="A verb with its options, as without Docker.", allow_leading_hyphen=True)],
    image_name: Annotated[str | None, Parameter(name="--image", help="An image that is there already.")] = None,
) -> ExitCode:
    """Run a verb in the container, on this checkout's code and records; the image is built where it is missing."""
    if not words:
        raise UsageError("run-in-docker needs a verb, such as bench or verify, and then that verb's options")
    order = sandbox.Order(Tree.here().root, words, gpus=_needs_gpu(words))
    present = devices() if order.gpus else []
    if order.gpus:
        gpus.narrowed()  # before an image is built for what would then be refused
    with engine.connected() as client:
        chosen = image.find(client, image_name) if image_name else image.fitting(client, order.root)
        if chosen is None:
            console.print(f"no image '{image.NAME}' of these pins yet: building it, once")
            recipe = image.Recipe(order.root)
            with reporting(recipe.steps()) as reporter:
                chosen = image.build(client, recipe, reporter)
        return sandbox.run(client, chosen, order, present[0] if present else None)


def _needs_gpu(words: tuple[str, ...]) -> bool:
    """Whether the container gets the machine's GPUs: by the key that is named, else where there are any."""
    named = [words[1]] if words[1:2] and words[1] in gpus.table() else []
    named += [after for word, after in pairwise(words) if word == "--gpu"]
    named += [word.partition("=")[2] for word in words if word.startswith("--gpu=")]
    key = named[-1] if named else gpus.AUTO
    return bool(devices()) if key == gpus.AUTO else not gpus.find(key).is_cpu
