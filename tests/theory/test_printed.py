"""One rule for ``printed=``: without it the form that holds, with it the paper's own."""

from __future__ import annotations

import dataclasses
import inspect

import multireplay as mr
from multireplay import theory


def test_every_default_is_the_form_that_holds() -> None:
    functions = [getattr(theory, name) for name in theory.__all__]
    methods = [value for value in vars(theory.Constants).values() if inspect.isfunction(value)]
    asked = [inspect.signature(function).parameters.get("printed") for function in [*functions, *methods]]
    defaults = [parameter.default for parameter in asked if parameter is not None]
    assert len(defaults) >= 10
    assert set(defaults) == {False}
    (field,) = (field for field in dataclasses.fields(mr.steps.Theorem1) if field.name == "printed")
    assert field.default is False
