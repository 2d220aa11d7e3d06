"""The paper's synthetic study: its figures 1 to 4 and what it says in words, measured anew."""
