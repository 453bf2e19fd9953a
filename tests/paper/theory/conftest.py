"""The whole theory is checked once, and every test reads the result."""

import pytest

from maskless_paper.theory import Size, check_all


@pytest.fixture(scope="session")
def findings():
    return check_all(Size(seed=0, mdps=1000))
