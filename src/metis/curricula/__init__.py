"""All curricula by name. Constructor arguments are settings; a dict is the only registry."""

from metis.core import Curriculum
from metis.curricula.adarft import Adarft
from metis.curricula.adcl import Adcl
from metis.curricula.dapo import Dapo
from metis.curricula.dots import Dots
from metis.curricula.dps import Dps
from metis.curricula.dump import Dump
from metis.curricula.e2h import E2H
from metis.curricula.greso import Greso
from metis.curricula.knapsack import Knapsack
from metis.curricula.mapp import Mapp
from metis.curricula.metis import Metis
from metis.curricula.mopps import Mopps
from metis.curricula.nemotron import Nemotron
from metis.curricula.oracle import Oracle
from metis.curricula.pcl import Pcl
from metis.curricula.pools import Pools
from metis.curricula.probe import Probe
from metis.curricula.ragen2 import Ragen2
from metis.curricula.sec import Sec
from metis.curricula.speed import Speed
from metis.curricula.staged import Staged
from metis.curricula.uniform import Uniform
from metis.curricula.vcrl import Vcrl
from metis.curricula.vip import Vip

CURRICULA: dict[str, type[Curriculum]] = {
    "metis": Metis,
    "uniform": Uniform,
    "oracle": Oracle,
    "sec": Sec,
    "dump": Dump,
    "e2h": E2H,
    "staged": Staged,
    "adcl": Adcl,
    "nemotron": Nemotron,
    "adarft": Adarft,
    "pcl": Pcl,
    "dots": Dots,
    "probe": Probe,
    "mopps": Mopps,
    "mapp": Mapp,
    "dps": Dps,
    "pools": Pools,
    "knapsack": Knapsack,
    "vip": Vip,
    "dapo": Dapo,
    "speed": Speed,
    "vcrl": Vcrl,
    "greso": Greso,
    "ragen2": Ragen2,
}
