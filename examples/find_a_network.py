"""Recover the network behind a table whose network is known, and write it as a page."""

from sparsefield import MarkovField, plot_network
from sparsefield.app.datasets import make_markov_field

made = make_markov_field(50, 2000, neighbors=3.0, weights=(-2.0, 2.0), biases="balanced", burn_in=500, thin=10, seed=0)
field = MarkovField(selection="ebic", refit=True).fit(made.samples)

true = {frozenset(edge) for edge in made.edges}
found = {frozenset(edge) for edge in zip(field.edges_["variable_a"], field.edges_["variable_b"], strict=True)}
print(f"{len(true)} true edges, {len(found)} found, {len(found & true)} of these true.")

plot_network(field).figure.savefig("network.svg")
print("Wrote network.svg.")
