"""Every curriculum by its name. Constructor arguments are knobs; a dict is the only registry."""

from metis.core import Curriculum
from metis.curricula.dapo import Dapo
from metis.curricula.greso import Greso
from metis.curricula.metis import Metis
from metis.curricula.oracle import Oracle
from metis.curricula.speed import Speed
from metis.curricula.uniform import Uniform
from metis.curricula.vcrl import Vcrl

CURRICULA: dict[str, type[Curriculum]] = {
    "metis": Metis,
    "uniform": Uniform,
    "oracle": Oracle,
    "speed": Speed,
    "dapo": Dapo,
    "vcrl": Vcrl,
    "greso": Greso,
}
