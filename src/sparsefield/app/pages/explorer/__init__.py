"""A local page to explore a field: its network, beliefs under evidence, and the rows of a table."""
