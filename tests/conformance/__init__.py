"""What every store must do, on all of them."""

import pytest

# Their assertions tell what they compared, as those of tests do.
pytest.register_assert_rewrite("tests.conformance.model", "tests.conformance.sides")
