"""This package analyzes fitted fields: uncertainty, centrality, comparison of groups, and multiple imputation."""
