"""Load balancing on unlike nodes, and matrix products that are balanced by it."""

from ._isochron import *
from ._isochron import __all__, __version__
