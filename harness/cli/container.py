"""Verbs of the container: image, run-in-docker."""

from itertools import pairwise
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli.groups import GROUPS, READ
from harness.cli.options import Json
from harness.cli.reply import Reply
from harness.errors import ExitCode, InfrastructureError, UsageError
from harness.machine.nvml import devices
from harness.machine.progress import console, reporting

WITHOUT_GPU: Final = frozenset({"check", "build", "new", "next", "freshen", "transfer", *GROUPS[READ]})


class ImageData(msgspec.Struct, frozen=True):
    """The image that was built."""

    name: str
    id: str
    size_bytes: int


def build_image(
    *,
    name: Annotated[str, Parameter(help="Name of the image.")] = "tilebench",
    base: Annotated[str | None, Parameter(help="Base image; by default that of the Dockerfile.")] = None,
    cuda: Annotated[bool, Parameter(help="Install the CUDA packages.")] = True,
    network: Annotated[str | None, Parameter(help="Docker network for the build, such as host.")] = None,
    json: Json = False,
) -> Reply[ImageData]:
    """Build the container image from the Dockerfile of this checkout."""
    from harness.container import engine, image

    recipe = image.Recipe(image.checkout(Tree.here().root), name, base, cuda, network)
    with engine.connected() as client, reporting(recipe.steps()) as reporter:
        image.check_machine(client, recipe, None)
        built = image.build(client, recipe, reporter)
    made = ImageData(name, str(built.id), built.attrs["Size"])
    return Reply(made, lambda: f"{made.name} {made.id}, {made.size_bytes / 1e9:.1f} GB")


def run_in_docker(
    *words: Annotated[str, Parameter(help="A verb and its options, as without Docker.", allow_leading_hyphen=True)],
    image_name: Annotated[str | None, Parameter(name="--image", help="An image that exists already.")] = None,
) -> ExitCode:
    """Run a verb in the container, on the code and records of this checkout; builds the image where it is missing."""
    from harness.container import engine, image, sandbox

    if not words:
        raise UsageError("run-in-docker needs a verb, such as bench or verify, and then that verb's options")
    order = sandbox.ContainerCommand(Tree.here().root, words, gpus=_needs_gpu(words))
    present = devices() if order.gpus else []
    if order.gpus:
        gpus.narrowed()  # before a build of minutes
    with engine.connected() as client:
        chosen = image.find(client, image_name) if image_name else image.fitting(client, image.checkout(order.root))
        if chosen is None:
            if order.gpus and not present:
                raise InfrastructureError(engine.NO_DRIVER)
            console.print(f"no image '{image.NAME}' has these pins yet: building it, once")
            recipe = image.Recipe(image.checkout(order.root))
            image.check_machine(client, recipe, present[0] if present else None)
            with reporting(recipe.steps()) as reporter:
                chosen = image.build(client, recipe, reporter)
        return sandbox.run(client, chosen, order, present[0] if present else None)


def _needs_gpu(words: tuple[str, ...]) -> bool:
    """Whether the container gets the machine's GPUs: as the named key says, else if the machine has any.

    Reading and compiling need none, so a machine without a GPU does both for any key.
    """
    named = [after for word, after in pairwise(words) if word == "--gpu"]
    named += [word.partition("=")[2] for word in words if word.startswith("--gpu=")]
    key = named[-1] if named else gpus.AUTO
    if key != gpus.AUTO and gpus.find(key).is_cpu:
        return False
    return bool(devices()) if key == gpus.AUTO or words[0] in WITHOUT_GPU else True
