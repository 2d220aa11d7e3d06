"""A local page to look around in a field: its network, beliefs under evidence, and the rows of a table.

What is shown is computed without Dash, by `network`, `beliefs` and `rows`; `page` and `callbacks` only show it, and
`server` lets nobody in without the token.
"""
