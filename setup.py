"""What an installation holds, and under which names; pyproject.toml has all else.

An editable one leaves the packages in the checkout, under their own names. A wheel holds them in one package,
``tilebench_harness``, so that it claims one import name alone.
"""

import sys

from setuptools import find_packages, setup

HOME = "tilebench_harness"
OUTERMOST = ("harness", "kernels", "baselines")
DATA = {
    "harness.catalog": ["gpus.toml", "problem_sets.toml"],
    "harness.judge": ["amended.json"],
    "harness.authoring": ["starter/*", "starter/.gitignore", "starter/.github/workflows/*"],
    "harness.extras.report": ["templates/*.html", "assets/*"],
    "kernels": ["pinned/*.json", "front/models/*.json"],
}

held = "" if "editable_wheel" in sys.argv else f"{HOME}."
packages = find_packages(include=[f"{each}*" for each in OUTERMOST])
setup(
    packages=[HOME, *(f"{held}{each}" for each in packages)],
    package_dir={HOME: f"deploy/{HOME}", **{f"{held}{each}": each for each in OUTERMOST}},
    package_data={f"{held}{package}": files for package, files in DATA.items()},
)
