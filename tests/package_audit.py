"""Known vulnerabilities of the installed packages, as pip-audit finds them: ``make audit``.

pip-audit succeeds also where it could ask nobody: then it skips every package. Here that is a failure, unless
``--may-be-offline`` is given; a vulnerability that was found always is one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

COMMAND = ("-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--skip-editable")


def conclude(packages: list[dict[str, Any]], *, may_be_offline: bool) -> tuple[str, int]:
    """Return what to print about the packages of a report of pip-audit, and an exit code."""
    found = [
        f"{package['name']} {package['version']}: {one['id']}, fixed in {', '.join(one['fix_versions']) or 'none'}"
        for package in packages
        for one in package.get("vulns", ())
    ]
    if found:
        return "\n".join([*found, f"{len(found)} known vulnerabilities."]), 1
    skipped = [package["name"] for package in packages if "vulns" not in package]
    if len(skipped) == len(packages):
        return "The vulnerability service cannot be reached: no package was audited.", 0 if may_be_offline else 1
    text = f"{len(packages) - len(skipped)} packages have no known vulnerability."
    return (f"{text} {len(skipped)} are unknown to the service: {', '.join(skipped[:8])}." if skipped else text), 0


def run_audit() -> list[dict[str, Any]]:
    """Return the packages of a report; none where nobody could be asked."""
    done = subprocess.run([sys.executable, *COMMAND], capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        sys.stderr.write(done.stderr[-2000:])
        if "ConnectionError" not in done.stderr and "ServiceError" not in done.stderr:
            raise SystemExit("pip-audit failed.")
    return json.loads(done.stdout or '{"dependencies": []}')["dependencies"]


if __name__ == "__main__":
    text, code = conclude(run_audit(), may_be_offline="--may-be-offline" in sys.argv)
    sys.stdout.write(text + "\n")
    sys.exit(code)
