"""Tramway: atomic multicast for sharded, replicated services.

A service splits its state into groups, and each group is a set of replicas carried by hosts. A client casts a message to any set of
groups; every replica of those groups delivers it, once, in an order that no two replicas anywhere contradict.

    cluster = tramway.Cluster.load("cluster.yaml")

    host = tramway.Host(cluster, "h1", Counter())          client = tramway.Client(cluster)
    host.run()                                             replies = client.call(["g1", "g2"], b"...", timeout=5)

Clusters of `protocol: group` have members instead: tramway.Group, GroupClient, Topic. tramway.sim runs all of it in virtual time, for
tests; tramway.aio runs handles in an asyncio loop.

The library's errors are exceptions (tramway.Error). What a callback raises comes out of the call from within which it was called.
Bodies are bytes, copied: nothing of the library's memory is seen after a callback. Time-outs are in seconds.
"""
from . import sim
from ._library import HEADERS, version
from .client import Client
from .cluster import Cluster, LogLevel
from .errors import (Again, Broken, Closed, DataLost, Error, Exists, Invalid, Lost, Misused, NoMemory, NotFound, Refused,
                     SystemFailed, TimedOut, TooBig, Violated)
from .group import Group, GroupCounts, GroupHandle, GroupMachine, Sender, Wait
from .group_client import GroupClient
from .host import Delivery, DiskStats, Host, Machine, ReplicaStats, Role
from .question import Question
from .sim import Finding, Sim, Violation
from .topic import ClientTopic, From, Qos, Topic
from .kept import Version, versions
from .view import Answer, CellState, Item, Layout, LayoutCell, View, ViewCell

__version__ = ".".join(map(str, HEADERS))

__all__ = ["Again", "Answer", "Broken", "CellState", "Client", "ClientTopic", "Closed", "Cluster", "DataLost", "Delivery",
           "DiskStats", "Error", "Exists", "Finding", "From", "Group", "GroupClient", "GroupCounts", "GroupHandle", "GroupMachine",
           "Host", "Invalid", "Item", "Layout", "LayoutCell", "LogLevel", "Lost", "Machine", "Misused", "NoMemory", "NotFound",
           "Qos", "Question", "Refused", "ReplicaStats", "Role", "Sender", "Sim", "SystemFailed", "TimedOut", "TooBig", "Topic",
           "Version", "View", "ViewCell", "Violated", "Violation", "Wait", "sim", "version", "versions"]
