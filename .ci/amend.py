"""Write harness/judge/amended.json: `amend.py COMMIT WHY [OPERATOR[+] …]`, from the root of a checkout.

It says that the judge as it is would pass what the judge of COMMIT passed, with the same figures: rows of that judge
stay fresh. Nothing checks that claim but a reviewer of the difference. A later change of the judge voids it. An
operator's own trials are part of its judge. Those that have changed are named, so that no change goes unseen. A `+`
says that an operator's limits are wider now, so a kernel that was found wrong may be right. Records of judges that the
last amendment spoke for stay fresh too.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from harness.judge.facts.hashes import AMENDED, BASELINES, OPERATORS, Amendment, amendment, widened_at
from harness.records.base import now as recorded_at

UNCHANGED = (OPERATORS, BASELINES, f":!{BASELINES}/opponents", "harness/catalog/gpus.toml")  # what a hash covers too
HASHES = """
import json, sys
from pathlib import Path
from harness.catalog import gpus
from harness.judge.facts import hashes
from harness.operators import OPERATORS

hashed = getattr(hashes, sys.argv[1])
print(json.dumps({f"{key} {name}": hashed(Path(), name, gpus.find(key)) for key in sys.argv[2:] for name in OPERATORS}))
"""


def main() -> None:
    commit, why, *operators = sys.argv[1:]
    full = told("git", "rev-parse", "--verify", f"{commit}^{{commit}}").strip()
    names = [each.rstrip("+") for each in operators]
    named = (f":!{OPERATORS}/{name}.py" for name in names)
    if changed := told("git", "diff", "--name-only", full, "--", *UNCHANGED, *named).split():
        sys.exit(f"amend.py: {changed[0]} has changed since {commit}, which is more than an amendment of the judge")
    keys = sorted(path.name for path in Path("tuning").iterdir() if path.is_dir())
    now = hashes(Path(), "judge_as_it_is", keys)
    with tempfile.TemporaryDirectory() as folder:
        parts = subprocess.run(
            ["git", "archive", full, "harness", BASELINES], check=True, stdout=subprocess.PIPE
        ).stdout
        subprocess.run(["tar", "-C", folder, "-xf", "-"], input=parts, check=True)
        before = hashes(Path(folder), "judge_sha256", keys)
    wider = (name for name, given in zip(names, operators, strict=True) if name != given)
    widened = {name: widened_at(Path(), name) or recorded_at() for name in wider}
    last = amendment(Path())
    earlier = {each: last.kept(each) for each in judges() if last.kept(each) in before.values()}
    same = {own: before[name] for name, own in now.items()}
    made = Amendment(full, why, same, widened, {own: kept for own, kept in earlier.items() if own != kept})
    written = msgspec.json.encode(made, order="deterministic")
    Path(AMENDED).write_bytes(msgspec.json.format(written, indent=1) + b"\n")


def judges() -> set[str]:
    """The judges of all records."""
    records = (path.read_text(errors="replace") for path in Path("tuning").rglob("*.jsonl"))
    return {each for text in records for each in re.findall(r'"judge_sha256":"([0-9a-f]{64})"', text)}


def hashes(root: Path, function: str, keys: list[str]) -> dict[str, str]:
    found: dict[str, str] = json.loads(told(sys.executable, "-c", HASHES, function, *keys, cwd=root))
    return found


def told(*command: str, cwd: Path = Path()) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=cwd).stdout


if __name__ == "__main__":
    main()
