"""graphsde: node predictions on graphs with an uncertainty one can act on.

The public interface is what ``__init__.pyi`` names: type checkers read it, and so does this module, which imports a
name when it is first used. ``import graphsde`` itself is cheap.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
