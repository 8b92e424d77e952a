"""graphsde: node predictions on graphs with uncertainty you can act on.

The public interface is what ``__init__.pyi`` names: type checkers read it, and so does this module, which imports a
name when it is first used. ``import graphsde`` itself is cheap.
"""

import lazy_loader as _lazy

_attribute, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    try:
        return _attribute(name)
    except AttributeError as error:
        if name.startswith("_") or not str(error).startswith("No graphsde attribute"):
            raise
        from graphsde.base.suggestions import closest

        if name in ("fit", "train", "predict"):
            hint = f"models have {'fit' if name == 'train' else name}, such as gs.GCN().fit(graph).predict(graph)"
        else:
            close = closest(name, __all__)
            hint = f"did you mean '{close}'?" if close else "dir(graphsde) lists all names"
        raise AttributeError(f"No graphsde attribute {name}: {hint}", name=name) from None
