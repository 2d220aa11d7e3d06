"""All candidates at once may be more than a machine holds."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sparsefield import MarkovField
from sparsefield.errors import DataError


def test_full_on_many_columns_is_refused_with_the_figure() -> None:
    n_columns = 200_000
    rows = np.repeat(np.arange(200), n_columns // 200)
    matrix = sp.csr_matrix((np.ones(n_columns, dtype=np.int8), (rows, np.arange(n_columns))), shape=(200, n_columns))
    with pytest.raises(DataError, match=r"19,999,900,000 candidates may take [\d,.]+ GiB.*'cfi'"):
        MarkovField(l1=2.0, induction="full").fit(matrix)
