"""Every curriculum by its name. Constructor arguments are knobs; a dict is the only registry."""

from metis.core import Curriculum
from metis.curricula.dots import Dots
from metis.curricula.metis import Metis
from metis.curricula.oracle import Oracle
from metis.curricula.pcl import Pcl
from metis.curricula.probe import Probe
from metis.curricula.uniform import Uniform

CURRICULA: dict[str, type[Curriculum]] = {
    "metis": Metis,
    "uniform": Uniform,
    "oracle": Oracle,
    "pcl": Pcl,
    "dots": Dots,
    "probe": Probe,
}
