"""What every model promises, as checks that anybody can run on a model of their own.

Example, in a test file of yours::

    import pytest
    from graphsde.models.contract import MODEL_CHECKS, ModelCase

    CASE = ModelCase(lambda **settings: MyModel(epochs=3, **settings))

    @pytest.mark.parametrize("check", MODEL_CHECKS, ids=lambda c: c.__name__)
    def test_contract(check, tmp_path):
        check(CASE, tmp_path)

One fit on a graph of thirty nodes is shared by all checks that only read.
"""

from graphsde.models.contract import fitting, identity, predicting, saving  # noqa: F401  (each adds its checks)
from graphsde.models.contract.case import MODEL_CHECKS, Broken, Check, ModelCase, contract_graph

__all__ = ["MODEL_CHECKS", "Broken", "Check", "ModelCase", "contract_graph"]
