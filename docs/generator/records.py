"""The files of records under ``tuning/``, the columns of an export, and the operators."""

from pathlib import Path
from typing import Final

from docs.generator import schemas
from harness.boards import exports
from harness.boards.reproduction import Reproduction
from harness.catalog.opponents import Opponents
from harness.extras.foreign.record import ForeignRecord
from harness.extras.tune.record import Pick, TuningTrial
from harness.operators import OPERATORS
from harness.records.builds import BuildRecord
from harness.records.ceilings import CeilingRecord
from harness.records.pairs import PairRecord
from harness.records.playoffs import PlayOff
from harness.records.profiles import ProfileRecord
from harness.records.results import BaselineRecord, Record
from harness.records.same_code import SameCode
from harness.records.sustained import SustainedRecord
from harness.records.versus import VersusRecord

ROOT: Final = Path(__file__).resolve().parents[2]
# File below tuning/<gpu>/ -> the struct of its lines, and what one line is.
FILES: Final = {
    "tilelang/logs/<shape_key>/<model>/results.jsonl": (Record, "one outcome of an iteration"),
    "tilelang/logs/<shape_key>/<model>/sustained.jsonl": (SustainedRecord, "one outcome at the power limit"),
    "tilelang/logs/<shape_key>/<model>/builds.jsonl": (BuildRecord, "one build, with what the compilers said"),
    "tilelang/logs/<shape_key>/<model>/rebuilds.jsonl": (BuildRecord, "one build of code that builds.jsonl holds"),
    "tilelang/logs/<shape_key>/<model>/same_code.jsonl": (SameCode, "one change of a family that left a kernel's code"),
    "tilelang/logs/<shape_key>/<model>/profiles.jsonl": (ProfileRecord, "one profile, with its bound and its ideas"),
    "tilelang/logs/<shape_key>/<model>/tuning.jsonl": (TuningTrial, "one candidate of a search, on one rung"),
    "tilelang/logs/<shape_key>/<model>/picks.jsonl": (Pick, "one winner of a search"),
    "tilelang/logs/<shape_key>/<model>/reproductions.jsonl": (Reproduction, "one record, measured again"),
    "tilelang/logs/<shape_key>/opponents/results.jsonl": (Record, "one outcome of an opponent"),
    "tilelang/logs/<shape_key>/pairs.jsonl": (PairRecord, "one leader against an opponent"),
    "tilelang/logs/<shape_key>/versus.jsonl": (VersusRecord, "one iteration in two environments"),
    "tilelang/logs/<shape_key>/play_offs.jsonl": (PlayOff, "one play-off between the leaders of a problem"),
    "tilelang/baseline/<shape_key>/results.jsonl": (BaselineRecord, "one time of the library's call"),
    "tilelang/ceilings.jsonl": (CeilingRecord, "one power ceiling of a chip, for one dtype"),
    "foreign/<shape_key>/<model>/results.jsonl": (ForeignRecord, "one outcome of a foreign script"),
}


def reference() -> str:
    """Each file with its struct, then every struct with its fields."""
    lines = ["| file, below `tuning/<gpu>/` | one line is | struct |", "|---|---|---|"]
    for path, (struct, what) in FILES.items():
        lines.append(f"| `{path}` | {what} | [{struct.__name__}](#{struct.__name__.lower()}) |")
    return "\n".join(lines) + "\n\n" + schemas.sections(struct for struct, _ in FILES.values())


def columns() -> str:
    """The columns of an export."""
    lines = ["| column | type | what it holds |", "|---|---|---|"]
    lines += [f"| `{name}` | {kind.__name__} | {text} |" for name, (kind, text, _) in exports.COLUMNS.items()]
    return "\n".join(lines) + "\n"


def opponents() -> str:
    """Every opponent, as its file describes it."""
    lines = ["| opponent | what it is | problems | packages | licence |", "|---|---|---|---|---|"]
    for each in Opponents.of(ROOT).members:
        taken = "; ".join(f"{name}: {', '.join(dtypes)}" for name, dtypes in each.operators.items())
        packages = f"{', '.join(each.requires)} (`{each.extra}`)" if each.requires else "none of its own"
        lines.append(f"| `{each.name}` | {each.what} | {taken} | {packages} | [{each.licence}]({each.source}) |")
    return "\n".join(lines)


def operators() -> str:
    """Every operator with its dimensions and with what its module says."""
    lines = ["| operator | dimensions | computes |", "|---|---|---|"]
    for name, operator in sorted(OPERATORS.items()):
        lines.append(f"| `{name}` | {'x'.join(operator.dims)} | {_computes(name)} |")
    return "\n".join(lines)


def _computes(name: str) -> str:
    """The first sentence of the operator's module, without the operator's name."""
    module = __import__(f"harness.operators.{name}", fromlist=["__doc__"])
    first = schemas.prose(module.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    return first.partition(": ")[2] or first
