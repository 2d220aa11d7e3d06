"""The paper's table, figures and claims; ``python -m reproduction --help`` lists them."""
