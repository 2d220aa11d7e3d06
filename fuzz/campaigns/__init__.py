"""The campaigns, by name."""

from __future__ import annotations

from fuzz.campaigns import (
    arrays,
    frames,
    interrupts,
    kills,
    model_files,
    parameters,
    sql_names,
    table_files,
    text_files,
)
from fuzz.campaigns import thread_pools as threads
from fuzz.recipes import Campaign

MODULES = frames, text_files, table_files, arrays, model_files, parameters, kills, threads, sql_names, interrupts

CAMPAIGNS: dict[str, Campaign] = {module.CAMPAIGN.name: module.CAMPAIGN for module in MODULES}
