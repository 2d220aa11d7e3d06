"""The campaigns, by name."""

from __future__ import annotations

from fuzz.campaigns import arrays, frames, kills, model_files, parameters, sql_names, text_files, thread_pools
from fuzz.recipes import Campaign

CAMPAIGNS: dict[str, Campaign] = {
    campaign.name: campaign
    for campaign in (
        frames.CAMPAIGN,
        text_files.CAMPAIGN,
        arrays.CAMPAIGN,
        model_files.CAMPAIGN,
        parameters.CAMPAIGN,
        kills.CAMPAIGN,
        thread_pools.CAMPAIGN,
        sql_names.CAMPAIGN,
    )
}
