"""A local page to explore a field: its network, beliefs under evidence, and the rows of a table.

`conditional_beliefs` and `table_rows` compute what is shown, without Dash; `explorer_page`, `page_elements` and
`page_callbacks` show it, and `server` refuses every request without the token.
"""
