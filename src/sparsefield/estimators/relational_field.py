"""`RelationalField`, the estimator for linked tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsefield.compute.threads import report_progress
from sparsefield.data import (
    AUTO,
    Dataset,
    Label,
    Layout,
    Relational,
    Schema,
    Template,
    as_templates,
    compile_table,
    fill_cells,
    learn_schema,
    link_product,
    resolve_templates,
    row_pairs,
    template_ends,
    warn_incomplete_covariates,
)
from sparsefield.data.link_products import LinkProduct
from sparsefield.errors import DataError, prefix_errors
from sparsefield.estimators.answers import (
    Cells,
    Fill,
    Posterior,
    check_fill,
    drawn_cells,
    filled_cells,
    probabilities,
    states_of,
)
from sparsefield.estimators.compiled_rows import (
    infer_cells,
    infer_missing,
    joint_log_likelihood,
    pseudo_log_likelihood,
    threads_for,
)
from sparsefield.estimators.field_estimator import FieldEstimator, TrainingData, as_seed
from sparsefield.estimators.queries import find_completion
from sparsefield.estimators.template_induction import induce_templates
from sparsefield.estimators.training import check_parameters, train
from sparsefield.inference import MeanField, draw, settle_paths
from sparsefield.inference.elimination import MAX_CELLS
from sparsefield.inference.gibbs import AIS
from sparsefield.model import Field
from sparsefield.options import COUNT, problems_of, raise_problems
from sparsefield.parameters import BURN_IN

TOLERANCE = 1e-3
"""Tolerance of mean field over linked rows. The paper has 0.1, which can stop long before beliefs have propagated along
a chain; an error of 0.001 in a belief changes no prediction."""


@dataclass(kw_only=True, eq=False, repr=False, match_args=False)
class RelationalField(FieldEstimator):
    """Learn a sparse field over linked tables, in which a template has one weight for all pairs of rows it connects.

    All rows of all tables form one sample: rows that are linked depend on each other. Parameters are those of
    `MarkovField` without ``latent`` and ``observed`` (the `Relational` declares its observed columns), except:

    Parameters
    ----------
    templates : "auto", "base", or a list of templates such as ``"across subject"`` or a `Template`
        Kinds of pairs of rows that features may connect; None takes those of the data, or else "auto". "base" is within
        each table, and across each link. "auto" also tries those that are swapped, shared, joined, means along two or
        three links, triangles and cycles, in the order of the gains that their features promise, and adds what
        predicts hidden cells better. Where all rows are searched it leaves out templates across links, swapped and
        joined ones with which hidden cells are predicted worse. ``template_search_`` says what happened, and why a
        search was impossible, as with a `FixedGraph` or by likelihood: then "auto" is "base".
    missing, inference
        "em" draws the missing cells of all tables together. "mean-field" updates all linked rows in a fixed order until
        no belief changes by more than 0.001; ``MeanField(tolerance=0.1)`` is the paper's rule.
    features : `Features`
        Features of three and more columns are within one row of a table that has a template "within".
    kinds : "auto" or {table: {column: kind}}

    Examples
    --------
    >>> import polars as pl
    >>> people = pl.DataFrame({"id": range(40), "smokes": [k % 20 < 10 for k in range(39)] + [None]})
    >>> friends = pl.DataFrame({"who": range(38), "whom": range(1, 39)})
    >>> more = pl.DataFrame({"who": [37, 38], "whom": [39, 39]})
    >>> data = Relational({"person": people, "friend": friends.vstack(more)}, keys={"person": "id"},
    ...                   links={"who": ("friend", "who", "person"), "whom": ("friend", "whom", "person")})
    >>> field = RelationalField(l1=0.5).fit(data)
    >>> field.features_["template"].to_list()
    ['joined who whom']
    >>> field.transform(data).tables["person"]["smokes"][39]
    False
    """

    templates: Sequence[Any] | None = None

    def fit(
        self, data: Relational, y: Any = None, *, states: Mapping[str, Mapping[str, Sequence[Label]]] | None = None
    ) -> RelationalField:
        """Learn the field; linked rows belong together, so that ``l1="auto"`` holds out single cells, not rows.

        ``states``, {table: {column: its states}}, exist although the tables may have no example of them.
        """
        check_parameters(self)
        with self._open_training_data(data, states=states) as training:
            train(self, training)
        return self

    @contextmanager
    def _open_training_data(
        self, X: Relational, y: Any = None, *, states: Mapping[str, Mapping[str, Sequence[Label]]] | None = None
    ) -> Iterator[TrainingData]:
        data = _checked(X)
        names = tuple(data.tables)
        kinds = self.kinds if isinstance(self.kinds, Mapping) else {}
        for option, mapping in (("states", states or {}), ("kinds", kinds)):
            for name in mapping:
                data.require_table(name, f"{option}=")
        schemas = tuple(self._learn_schema(data, name, (states or {}).get(name)) for name in names)

        def compile(templates: Sequence[Template], data: Relational = data) -> Dataset:
            templates = resolve_templates(data, templates)
            ends = tuple(_ends(data, names, template) for template in templates)
            lacking = self._lacking_for_paths()
            pairs = _pairs(data, templates, listed=bool(lacking))
            parts = zip(templates, ends, pairs, strict=True)
            has_neighbor_count = tuple(_neighbor_counts_differ(data, names, *part) for part in parts)
            layout = Layout(names, schemas, templates, ends, has_neighbor_count)
            if lacking and any(template.over_paths or template.along_links for template in templates):
                raise DataError(f"The templates 'mean', 'sum', 'triangle' and 'cycle' need {lacking}.")
            return _compile(data, layout, pairs)

        templates = data.templates if self.templates is None else as_templates(self.templates)
        dataset, start, self.template_search_ = compile(resolve_templates(data, templates)), None, []
        if templates in (None, AUTO):
            chosen, paths = dataset.layout.templates, not self._lacking_for_paths()
            try:
                with report_progress(None), threads_for(self, dataset) as engine:
                    search = induce_templates(self, data, dataset, compile, engine, paths=paths)
                chosen, start, self.template_search_ = search
            except DataError as error:
                self.template_search_ = [f"templates are not sought: {error}"]
            dataset = compile(chosen) if chosen != dataset.layout.templates else dataset
        yield TrainingData(dataset.with_sums(), next(iter(data.sources.values())).kind, start=start)

    def _lacking_for_paths(self) -> str:
        """Return the first option that features over three linked rows need, and this estimator lacks; or nothing."""
        needed = {
            "objective='pl'": self.resolve("objective").is_pseudo_likelihood,
            "penalty='l1'": self.penalty == "l1",
            "refit=False or refit=True": self.refit != "ml",
            "rows on this machine": self.resolve("solver").engine is None,
        }
        return next((words for words, there in needed.items() if not there), "")

    def transform(self, data: Relational, *, fill: Fill = "auto") -> Relational:
        """Return ``data`` with each missing cell filled, as the same kinds of tables: see `MarkovField.transform`."""
        check_fill(fill)
        dataset = self._compile_densely(data)
        parts = zip(dataset.tables, infer_missing(self, dataset).values, strict=True)
        return self._fill(data, [filled_cells(table, beliefs, fill) for table, beliefs in parts])

    def infer(self, data: Relational) -> dict[str, Posterior]:
        """Return {table: distribution of its target cells given the observed cells of all tables}."""
        dataset = self._compile_densely(data)
        parts = zip(dataset.layout.tables, dataset.tables, infer_missing(self, dataset).values, strict=True)
        return {
            name: Posterior(data.select_variables(name), table, marginals, data.sources[name].kind)
            for name, table, marginals in parts
        }

    def complete(self, data: Relational, *, max_cells: int = MAX_CELLS) -> Relational:
        """Return ``data`` with the missing cells of linked rows in their most probable *joint* state.

        See `MarkovField.complete`.
        """
        dataset = self._compile_densely(data, listed=True)
        with threads_for(self, dataset) as engine:
            codes = find_completion(self.field_, dataset, engine, max_cells).codes
        return self._fill(data, map(drawn_cells, dataset.tables, codes))

    def fit_transform(self, data: Relational, y: Any = None, **options: Any) -> Relational:
        """Fit to ``data`` and return it with its missing cells filled."""
        return self.fit(data, y, **options).transform(data)

    def predict_proba(self, data: Relational) -> dict[str, dict[str, np.ndarray]]:
        """Return {table: {column: (rows, states)}}: the posterior of a missing cell; for an observed value, the
        probabilities of its states given everything else.

        Numeric columns are left out: see `infer`. The columns of each array follow ``states_[table][column]``.
        """
        dataset = self._compile_densely(data)
        layout, conditionals = dataset.layout, infer_cells(self, dataset).conditionals
        return {
            name: probabilities(schema, beliefs)
            for name, schema, beliefs in zip(layout.tables, layout.schemas, conditionals, strict=True)
        }

    def score(self, data: Relational, y: Any = None) -> float:
        """Return the mean pseudo-log-likelihood of the observed values over the rows of all tables with targets."""
        dataset = self._compile_densely(data)
        rows = sum(table.n_rows for table in dataset.tables if table.schema.targets)
        if rows == 0:
            raise DataError("The tables have no rows: there is nothing to score.")
        return pseudo_log_likelihood(self, dataset) / rows

    def log_likelihood(self, X: Relational, *, ais: AIS | None = None) -> float:
        """Return the log-likelihood (natural log) of the observed targets of all tables together.

        Linked rows depend on each other, so that single rows have none: see `MarkovField.log_likelihood`.
        """
        if any(template.over_paths or template.along_links for template in self.field_.layout.templates):
            words = "Triangles, cycles and paths along links connect all rows: such a field has no log-likelihood"
            raise DataError(f'{words}. Use score, or a fit with templates="base" (--template base).')
        return joint_log_likelihood(self, self.field_, self._compile_densely(X, listed=True), ais, linked=True)

    def sample(
        self,
        given: Relational,
        *,
        sweeps: int = BURN_IN,
        random_state: int | np.random.RandomState | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Relational:
        """Return ``given`` with its missing cells drawn by one Gibbs chain of ``sweeps`` sweeps over all linked rows.

        ``progress`` is called from time to time with the number of sweeps done and their total number.
        """
        raise_problems(problems_of({"sweeps": sweeps}, {"sweeps": COUNT}))
        dataset = self._compile_densely(given, listed=True)
        seed = as_seed(self.random_state if random_state is None else random_state)
        with threads_for(self, dataset) as engine:
            drawn = draw(self.field_, dataset, sweeps=sweeps, seed=seed, engine=engine, progress=progress)
        seeds = np.random.SeedSequence(seed or 0).spawn(len(dataset.tables))
        return self._fill(given, map(drawn_cells, dataset.tables, (codes[0] for codes in drawn), seeds))

    def _compile_densely(self, X: Relational, *, listed: bool = False) -> Dataset:
        check_is_fitted(self)
        data, layout = _checked(X), self.field_.layout
        missing = [name for name in layout.tables if name not in data.tables]
        if missing:
            raise DataError(f"Table {missing[0]!r}, which the field was learned with, is missing.")
        for template, ends in zip(layout.templates, layout.ends, strict=True):
            if _ends(data, layout.tables, template) != ends:
                raise DataError(f"The template {template.label!r} connects other tables than it was learned with.")
        dataset = _compile(data, layout, _pairs(data, layout.templates, listed)).with_sums()
        with threads_for(self, dataset) as engine:
            return settle_paths(self.field_, dataset, engine)

    def _compile_fitted(self, X: Any, y: Any, sample_weight: Any) -> Dataset:
        if sample_weight is not None:
            raise DataError("Rows of linked tables have no weights: leave sample_weight out.")
        return self._compile_densely(X)

    def _fill(self, data: Relational, cells: Iterable[Cells]) -> Relational:
        """Return ``data`` with cells replaced, for each table of the field: ``{column: (row numbers, labels)}``."""
        parts = dict(zip(self.field_.layout.tables, cells, strict=True))
        filled = {name: fill_cells(data.tables[name], data.sources[name], part) for name, part in parts.items() if part}
        return data.with_tables(filled)

    def _learn_schema(self, data: Relational, table: str, states: Mapping[str, Sequence[Label]] | None) -> Schema:
        source, observed = data.select_variables(table), data.observed.get(table, ())
        with prefix_errors(f"Table {table!r}"):
            kinds: Any = self.kinds.get(table, "auto") if isinstance(self.kinds, Mapping) else self.kinds
            symmetric = self.resolve("features").coding == "symmetric"
            schema = learn_schema(source, observed=observed, kinds=kinds, states=states, symmetric=symmetric)
        warn_incomplete_covariates(source, observed)
        return schema

    def resolve(self, name: str) -> Any:
        """Return the option object of a parameter; mean field over linked rows has a smaller tolerance by default."""
        part = super().resolve(name)
        if name in ("missing", "inference") and part == MeanField() and isinstance(getattr(self, name), str):
            return MeanField(tolerance=TOLERANCE)
        return part

    def _plain_params(self) -> dict[str, Any]:
        params = super()._plain_params()
        if self.templates is not None or getattr(self, "template_search_", ()):  # those that were chosen stay
            params["templates"] = [template.as_plain() for template in self.field_.layout.templates]
        return params

    def _restore_columns(self, field: Field, extra: dict[str, Any]) -> None:
        """Do nothing: the layout has the names and states of the columns."""

    def _read_states(self) -> dict[str, Any]:
        layout = self.field_.layout
        return {name: states_of(schema) for name, schema in zip(layout.tables, layout.schemas, strict=True)}


def _checked(data: Any) -> Relational:
    if not isinstance(data, Relational):
        raise DataError(
            f"A RelationalField takes a Relational, got a {type(data).__name__}: Relational(tables={{name: frame}}, "
            "keys=..., links=...). Use MarkovField for one table."
        )
    return data


def _ends(data: Relational, names: Sequence[str], template: Template) -> tuple[int, int]:
    """Return the tables at the two ends of a template, -1 for one that is not among ``names``."""
    left, right = (names.index(end) if end in names else -1 for end in template_ends(data.links, template))
    return left, right


def _pairs(data: Relational, templates: Sequence[Template], listed: bool = False) -> list[Any]:
    """Return the rows (left, right) that each template connects, or sums in both directions."""
    return [link_product(data, template, listed=listed) or row_pairs(data, template) for template in templates]


def _neighbor_counts_differ(
    data: Relational, names: Sequence[str], template: Template, ends: tuple[int, int], pairs: Any
) -> tuple[bool, bool]:
    """Return whether rows at a template's left, and at its right, differ in their number of neighbors."""
    if template.kind == "within" or template.over_paths:
        return False, False
    if isinstance(pairs[0], LinkProduct):
        return len(np.unique(pairs[0].counts)) > 1, len(np.unique(pairs[1].counts)) > 1
    pairs = [np.concatenate(pairs)] * 2 if template.symmetric else pairs
    sizes = [data.sources[names[end]].n_rows for end in ends]
    left, right = (len(np.unique(np.bincount(rows, minlength=n))) > 1 for rows, n in zip(pairs, sizes, strict=True))
    return left, right


def _compile(data: Relational, layout: Layout, pairs: Sequence[Any]) -> Dataset:
    """Compile all tables, and the pairs of rows that templates connect, without any sums."""
    tables = []
    for name, schema, width in zip(layout.tables, layout.schemas, layout.widths, strict=True):
        with prefix_errors(f"Table {name!r}"):
            tables.append(compile_table(data.select_variables(name), schema, width=int(width), name=name))
    return Dataset.linked(layout, tables, pairs)
