#!/usr/bin/env python3
"""BlueFog's own graphs and generators of dynamic peers behind Plumbline's adapter door.

They stand in one file of Python, which is loaded alone: BlueFog's package needs its extension in C++, which needs MPI and a PyTorch of 2020.
"""
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))
from framework import asked, at_most, no_answer, serve
import importlib.metadata
import importlib.util
import itertools

import networkx
import numpy

ROOT = importlib.util.find_spec("bluefog").submodule_search_locations[0]
spec = importlib.util.spec_from_file_location("topology_util", ROOT + "/common/topology_util.py")
util = importlib.util.module_from_spec(spec)
spec.loader.exec_module(util)
GRAPHS = ["ExponentialTwoGraph", "ExponentialGraph", "SymmetricExponentialGraph", "RingGraph", "MeshGrid2DGraph", "StarGraph", "FullyConnectedGraph"]
ONE_PEER, MACHINES = "GetDynamicOnePeerSendRecvRanks", "GetExp2DynamicSendRecvMachineRanks"
OVER_MACHINES = ["GetInnerOuterRingDynamicSendRecvRanks", "GetInnerOuterExpo2DynamicSendRecvRanks"]


def of(pair):
    own, neighbors = pair
    return {"self": own, "neighbors": {str(rank): weight for rank, weight in neighbors.items()}}


def graph_of(name, **args):
    if name not in GRAPHS:
        no_answer(f"BlueFog has no graph {name}: its users name a function of a module")
    at_most(1024, args["size"], "each row of weights is made from the whole matrix")
    return asked(getattr(util, name), **{key: tuple(value) if isinstance(value, list) else value for key, value in args.items()})


def topology(topology, args):
    graph = graph_of(topology, **args)
    weights, ranks = networkx.to_numpy_array(graph), range(args["size"])
    return {"weights": weights, "regular": util.IsRegularGraph(graph), "recv": [of(util.GetRecvWeights(graph, rank)) for rank in ranks],
            "send": [of(util.GetSendWeights(graph, rank)) for rank in ranks],
            **{name: bool(numpy.allclose(weights.sum(axis=axis), 1)) for name, axis in (("row_sums_one", 1), ("column_sums_one", 0))}}


def turns(generator, steps, topology=None, size=None, world_size=None, local_size=None):
    def peers(rank):
        if generator == ONE_PEER:
            return util.GetDynamicOnePeerSendRecvRanks(graph, rank)
        more = (rank, rank % local_size if local_size else 0) if generator == MACHINES else (rank,)
        return getattr(util, generator)(world_size, local_size, *more)

    if generator not in (ONE_PEER, MACHINES, *OVER_MACHINES):
        no_answer(f"BlueFog has no generator {generator}: its users name a function of a module")
    graph = graph_of(topology, size=size) if generator == ONE_PEER else None
    return {"ranks": [[list(step) for step in itertools.islice(peers(rank), steps)] for rank in range(size if graph else world_size)]}


serve("BlueFog", importlib.metadata.version("bluefog"), {"gossip.topology": topology, "gossip.turns": turns},
      conventions={"bluefog": importlib.metadata.version("bluefog")}, options={"gossip.topology": {"topology": GRAPHS}})
