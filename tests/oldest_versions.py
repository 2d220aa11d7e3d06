"""This module prints pip constraints for the oldest versions that pyproject.toml permits; see ``make test-oldest``."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[(?P<extras>[^\]]*)\])?(?P<bounds>.*)")
LOWER = re.compile(r"(?:>=|==)\s*([0-9][0-9A-Za-z.]*)")


def oldest_versions(project: dict[str, Any], extra: str) -> dict[str, str]:
    """Return {package: lower bound} of the dependencies of a project and of an extra with all that it includes."""
    found = (_lower_bound(one) for one in _requirements(project, extra))
    return {name: version for name, version in found if version}


def _requirements(project: dict[str, Any], extra: str) -> Iterator[str]:
    yield from project["dependencies"]
    extras, seen = [extra], set()
    while extras:
        name = extras.pop()
        seen.add(name)
        for requirement in project["optional-dependencies"][name]:
            parts = REQUIREMENT.match(requirement)
            if parts and parts["name"] == project["name"]:
                extras += [one.strip() for one in parts["extras"].split(",") if one.strip() not in seen]
            else:
                yield requirement


def _lower_bound(requirement: str) -> tuple[str, str]:
    parts = REQUIREMENT.match(requirement)
    if parts is None:
        raise ValueError(f"{requirement!r} is not a requirement.")
    lower = LOWER.search(parts["bounds"])
    return parts["name"], lower.group(1) if lower else ""


def main() -> None:
    """Print a line per package."""
    path, extra = Path(sys.argv[1]), sys.argv[2]
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    for name, version in sorted(oldest_versions(project, extra).items()):
        sys.stdout.write(f"{name}=={version}\n")


if __name__ == "__main__":
    main()
