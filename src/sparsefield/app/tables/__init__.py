"""Reading and writing of tables, databases and exchange formats."""
