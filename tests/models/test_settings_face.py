"""What a model shows of its settings: signature, docstring, types, scikit-learn's parameters."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import numpy as np
import pytest
from pydantic import Field
from sklearn.base import clone

import graphsde as gs
from graphsde.base.errors import BadUsage
from graphsde.models import MODELS, options
from graphsde.models.lgnsde.settings import ConsistencySettings, Part
from graphsde.models.parameters import accepted_type
from graphsde.nn.settings import Settings

NAMES = [name for name in MODELS if MODELS.get(name).__module__.startswith("graphsde.")]


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_has_a_meaning_a_type_and_a_default(name: str) -> None:
    cls = MODELS.get(name)
    fields, meanings = cls.Settings.model_fields, cls.Settings.meanings()
    assert set(meanings) == set(fields) and all(meanings.values())
    parameters = inspect.signature(cls).parameters
    assert set(parameters) == set(fields)
    params = cls().get_params(deep=False)
    for field, parameter in parameters.items():
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert parameter.default == params[field]
        assert f"\n    {field}: " in (cls.__doc__ or "")


@pytest.mark.parametrize("name", NAMES)
def test_type_checkers_know_the_same_settings(name: str) -> None:
    """If this fails, run studies/model_options.py."""
    cls = MODELS.get(name)
    unpacked = cls.__init__.__annotations__["settings"]
    spelt = getattr(options, unpacked.removeprefix("Unpack[").removesuffix("]"))
    hints = get_type_hints(spelt, localns={"Part": Part, "ConsistencySettings": ConsistencySettings})
    assert hints == {field: accepted_type(info.annotation) for field, info in cls.Settings.model_fields.items()}
    assert not spelt.__required_keys__


def test_nested_settings_have_meanings_too() -> None:
    for nested in (Part, ConsistencySettings):
        assert set(nested.meanings()) == set(nested.model_fields)


def test_meanings_are_read_from_the_whole_family() -> None:
    class Parent(Settings):
        """Parent.

        Args:
            one, two: of the parent,
                in two lines.
            three: other.

        Example:
            nothing: here
        """

        one: int = 1
        two: int = 2
        three: int = 3

    class Child(Parent):
        """Child.

        Args:
            two: of the child.
        """

    assert Child.meanings() == {"one": "of the parent, in two lines.", "two": "of the child.", "three": "other."}


def test_a_setting_that_must_be_given_is_shown_as_such() -> None:
    class NeedySettings(gs.ModelSettings):
        """Settings.

        Args:
            width: needed.
        """

        width: int = Field(ge=1)

    class Needy(gs.LabelPropagation):
        """Paper: none."""

        Settings = NeedySettings  # type: ignore[assignment]

    assert inspect.signature(Needy).parameters["width"].default is inspect.Parameter.empty
    assert "width: needed. Required." in (Needy.__doc__ or "")


@pytest.mark.parametrize("name", NAMES)
def test_scikit_learn_clones_it_and_its_parameters_make_it_again(name: str) -> None:
    cls = MODELS.get(name)
    model = cls(seed=7)
    twin = clone(model)
    assert type(twin) is cls and twin is not model
    assert twin.get_params() == model.get_params() and twin.get_params()["seed"] == 7
    params = model.get_params(deep=False)
    assert set(params) == set(cls.Settings.model_fields)
    assert cls(**params).get_params() == model.get_params()
    assert cls().set_params(**model.get_params()).settings == model.settings  # nested names and all
    assert model.set_params(seed=8) is model and model.settings.seed == 8


def test_a_clone_is_not_fitted_and_still_follows_the_graph(blocks: gs.Graph) -> None:
    model = gs.LGNSDE(epochs=2, hidden=4).fit(blocks)
    before = gs.LGNSDE(epochs=2, hidden=4).get_params()
    assert model.get_params() == before  # though its settings have followed the graph
    assert model.settings.scaling != before["scaling"]
    twin = clone(model)
    with pytest.raises(gs.GraphsdeError, match="not been fitted"):
        twin.predict(blocks)
    mine, other = (one.predict(blocks, samples=2).probs for one in (model, twin.fit(blocks)))
    assert np.array_equal(mine, other)
    with pytest.raises(gs.GraphsdeError, match="not been fitted"):
        model.set_params(epochs=3).predict(blocks)


def test_parts_of_nested_settings_can_be_set() -> None:
    model = gs.LGNSDE(preset="paper", drift=gs.drift.GCN(layers=3), consistency=ConsistencySettings(weight=0.5))
    params = model.get_params()
    assert params["drift__name"] == "gcn" and params["drift__options__layers"] == 3
    assert params["consistency"]["weight"] == params["consistency__weight"] == 0.5
    model.set_params(drift__options__layers=1, consistency__kind="sharpen")
    assert model.settings.drift.options["layers"] == 1
    assert model.settings.consistency == ConsistencySettings(kind="sharpen", weight=0.5)
    model.set_params(drift__name="gat")  # the options of another drift do not stay
    assert "layers" not in model.settings.drift.options
    ensemble = gs.Ensemble(base_settings={"hidden": 8}).set_params(base_settings__epochs=3)
    assert ensemble.get_params()["base_settings"] == {"hidden": 8, "epochs": 3}


def test_wrong_parameters_change_nothing() -> None:
    model: Any = gs.GCN(hidden=8)
    for wrong in ({"hiden": 3}, {"hidden": 0}, {"hidden__x": 1}):
        with pytest.raises(BadUsage):
            model.set_params(**wrong)
        assert model.settings.hidden == 8
    assert model.set_params() is model


def test_what_is_nobodys_business_does_not_show() -> None:
    for name in NAMES:
        assert not {"given", "known", "feature_map", "head_width"} & set(dir(MODELS.get(name)()))
