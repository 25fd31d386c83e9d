"""Every curriculum by its name. Constructor arguments are knobs; a dict is the only registry."""

from metis.core import Curriculum
from metis.curricula.adcl import Adcl
from metis.curricula.metis import Metis
from metis.curricula.mopps import Mopps
from metis.curricula.oracle import Oracle
from metis.curricula.uniform import Uniform

CURRICULA: dict[str, type[Curriculum]] = {
    "metis": Metis,
    "uniform": Uniform,
    "oracle": Oracle,
    "adcl": Adcl,
    "mopps": Mopps,
}
