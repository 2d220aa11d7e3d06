"""This module looks for known vulnerabilities of the installed packages with pip-audit: ``make audit``.

pip-audit succeeds also where it could ask nobody: then it skips every package. Here that is a failure, unless
``--may-be-offline`` is given; a vulnerability that was found always is one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

COMMAND = ("-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--skip-editable")
NAMED = 8
"""The most packages that a message names."""


@dataclass(frozen=True)
class Audit:
    """What pip-audit found."""

    audited: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    """Packages about which no answer came."""
    vulnerable: tuple[str, ...] = ()
    """A line per vulnerability."""


def read_audit(content: dict[str, Any]) -> Audit:
    """Return what a report of pip-audit says."""
    packages = content["dependencies"]
    lines = [_describe(package, one) for package in packages for one in package.get("vulns", ())]
    return Audit(
        tuple(package["name"] for package in packages if "vulns" in package),
        tuple(package["name"] for package in packages if "vulns" not in package),
        tuple(lines),
    )


def conclude(audit: Audit, *, may_be_offline: bool) -> tuple[str, int]:
    """Return what to print, and an exit code."""
    if audit.vulnerable:
        return "\n".join([*audit.vulnerable, f"{len(audit.vulnerable)} known vulnerabilities."]), 1
    if not audit.audited:
        return "The vulnerability service cannot be reached: no package was audited.", 0 if may_be_offline else 1
    text = f"{len(audit.audited)} packages have no known vulnerability."
    if audit.skipped:
        text += f" {len(audit.skipped)} are unknown to the service: {', '.join(audit.skipped[:NAMED])}."
    return text, 0


def _describe(package: dict[str, Any], found: dict[str, Any]) -> str:
    fixed = ", ".join(found.get("fix_versions", ())) or "no version yet"
    return f"{package['name']} {package['version']}: {found['id']}, fixed in {fixed}"


def _run_audit() -> Audit:
    done = subprocess.run([sys.executable, *COMMAND], capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        sys.stderr.write(done.stderr[-2000:])
        if "ConnectionError" not in done.stderr and "ServiceError" not in done.stderr:
            raise SystemExit("pip-audit failed.")
        return Audit()
    return read_audit(json.loads(done.stdout))


def main(words: Sequence[str]) -> int:
    text, code = conclude(_run_audit(), may_be_offline="--may-be-offline" in words)
    sys.stdout.write(text + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
