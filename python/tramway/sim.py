"""The simulator: a whole cluster with a state machine in Python, in one thread, in virtual time, for the tests of a service.

Hosts, replicas and clients are the code that runs in production, on a simulated memory. The same seed and the same calls give the
same run, as long as the state machine itself does the same. Time is in nanoseconds from 0.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Union

from . import _structs as s
from ._handle import Handle, as_name, as_number, without_error
from ._library import lib
from ._state import Life
from .client import Client, Done, Reply
from .cluster import Cluster
from .errors import NotFound, Violated
from .group import GroupHandle, GroupMachine, LayoutFunction, Member, group_machine_of, layout_call
from .host import Machine, ReplicaStats, machine_of
from .kept import Version, pages

__all__ = ["Sim", "SimClient", "SimGroup", "Finding", "Violation"]

SECOND_NS = 1_000_000_000
AnyMachine = Union[Machine, GroupMachine]

_replica = without_error(lib.tram_sim_replica)


class Finding(NamedTuple):
    """What a check found; None where a field does not apply."""

    property: str  # "replies" or "states", or the property of tram-check(1)
    group: int | None  # or the cell
    hosts: tuple[str, ...]  # the replicas that differ
    client: int | None  # the first message at which they do: its client,
    life: int | None
    seq: int | None  # its ticket there, or under protocol group its version
    number: int | None  # messages that the group delivered before it
    time_ns: int | None  # when it came to light
    text: str


class Violation(Violated):
    """Violated, with what was found."""

    finding: Finding


class SimClient(Client):
    """A client that lives in the simulation, which runs while it waits. Its time-outs are virtual."""

    def __init__(self, sim: Sim, on_reply: Reply | None, on_done: Done | None) -> None:
        Handle.__init__(self, sim.cluster, sim)
        self._prepare()
        self._simulated = True
        out = ctypes.c_void_p()
        sim._do(lib.tram_sim_client_open, self._options(on_reply, on_done, None), out)
        self._opened(out.value)

    def fd(self) -> int:
        raise NotImplementedError("a simulated client has no descriptor")


class SimGroup(GroupHandle):
    """A host's member, for all but being stepped and closed. Good until its life is over."""

    _closer = ""

    def __init__(self, sim: Sim, host: str, member: Member) -> None:
        super().__init__(sim.cluster, sim)
        self._sim = sim
        self.host = host
        self.machine = member.machine
        self._member = member

    def _alive(self) -> int:
        # As long as this life is the host's: then the library has it.
        if not self._sim.closed and self._sim._lives_of.get(self.host) is self._member:
            self._pointer = lib.tram_sim_group(self._sim._alive(), as_name(self.host))
        else:
            self._pointer = None
        return super()._alive()

    def close(self) -> None:
        """Nothing: it goes with the life of its host."""


class Sim(Handle):
    """A simulated cluster, all of whose hosts run.

    `machine` is the class of the state machines: of tramway.Machine, or, for a cluster of protocol group, of GroupMachine. One is
    made for each life of each host, by make(host) or by machine(). on_step(host, machine, group) is called after each round of a
    member. What callbacks raise comes out of whatever ran the simulation.
    """

    _closer = "tram_sim_close"

    def __init__(self, cluster: Cluster, machine: type[AnyMachine], make: Callable[[str], AnyMachine] | None = None, *,
                 seed: int = 0, clients: int = 0, delay_ns: tuple[int, int] = (0, 0), flush_ns: tuple[int, int] = (0, 0),
                 compare_every: int = 0, replies_only: bool = False, state_call_ns: int = 0, state_kib_ns: int = 0,
                 layout: LayoutFunction | None = None, on_step: Callable[[str, Any, SimGroup], None] | None = None,
                 trace: str | None = None) -> None:
        super().__init__(cluster)
        self._make = make or (lambda _host: machine())
        self._lives: dict[int, Life] = {}
        self._lives_of: dict[str, Life] = {}
        self._groups: dict[str, SimGroup] = {}
        self._next = 1
        self._later: dict[int, Callable[[Sim], None]] = {}
        self._at = s.AT(self._carried.wrap(self._run_later))
        o = s.tram_sim_options()
        o.seed, o.clients = as_number(seed, 64, "a seed"), as_number(clients, 32, "clients")
        o.delay_ns_min, o.delay_ns_max = delay_ns
        o.flush_ns_min, o.flush_ns_max = flush_ns
        o.compare_every, o.replies_only = as_number(compare_every, 32, "compare_every"), replies_only
        o.state_call_ns, o.state_kib_ns = state_call_ns, state_kib_ns
        self._machines(o, machine)
        o.layout = layout_call(cluster, self._carried, layout)
        self._hooks(o, on_step)
        self._trace: int | None = None
        if trace is not None:
            self._trace = o.trace = _open_file(trace)
        self._kept.append(o)
        try:
            self._open(lib.tram_sim_open, cluster._alive(), o)
        except BaseException:
            self._close_trace()
            raise

    def _machines(self, o: s.tram_sim_options, machine: type[AnyMachine]) -> None:
        if issubclass(machine, GroupMachine):
            o.group_machine = group_machine_of(self.cluster, machine, self._lives.__getitem__)
        elif issubclass(machine, Machine):
            o.machine = machine_of(self.cluster, machine, self._lives.__getitem__)
        else:
            raise TypeError(f"{machine.__name__} is neither a Machine nor a GroupMachine")

    def _hooks(self, o: s.tram_sim_options, on_step: Callable[[str, Any, SimGroup], None] | None) -> None:
        fields = dict(s.tram_sim_options._fields_)

        def step(_user: Any, host: bytes, ctx: int, _group: int) -> None:
            assert on_step is not None
            life = self._lives[ctx]
            if life.failed is None:
                on_step(host.decode(), life.machine, self.group(host.decode()))

        o.start = fields["start"](self._start_life)
        o.end = fields["end"](self._carried.wrap(self._end_life))
        if on_step is not None:
            o.step = fields["step"](self._carried.wrap(step))

    def _start_life(self, _user: Any, host: bytes) -> int:
        """One whose machine cannot be made has failed before it has begun."""
        machine: Any = None
        number, self._next = self._next, self._next + 1
        failure: BaseException | None = None
        try:
            machine = self._make(host.decode())
        except BaseException as e:
            failure = e
            self._carried.waiting.append(e)
        life = Member(machine, self._carried)
        life.failed = failure
        self._lives[number] = self._lives_of[host.decode()] = life
        return number

    def _end_life(self, _user: Any, host: bytes, ctx: int) -> None:
        self._lives.pop(ctx)
        self._lives_of.pop(host.decode(), None)
        self._groups.pop(host.decode(), None)

    def close(self) -> None:
        """Ends all hosts, and closes all clients that are still open."""
        try:
            super().close()
        finally:
            self._close_trace()

    def _close_trace(self) -> None:
        trace, self._trace = self._trace, None
        if trace is not None:
            _libc.fclose(trace)

    # ---- running ----

    def step(self) -> bool:
        """One event. False: nothing is left to happen."""
        return self._run(lib.tram_sim_step) > 0

    def run(self, ns: int) -> None:
        """Runs for so long."""
        self._run(lib.tram_sim_run, as_number(ns, 64, "a time"))

    def run_idle(self, limit_ns: int = 60 * SECOND_NS) -> None:
        """Runs until nothing is under way, and everybody has what is to be had."""
        self._run(lib.tram_sim_run_idle, as_number(limit_ns, 64, "a limit"))

    def run_done(self, client: SimClient, ticket: int, limit_ns: int = 60 * SECOND_NS) -> None:
        """Runs until the client has all answers to the message."""
        self._run(lib.tram_sim_run_done, client._alive(), as_number(ticket, 64, "a ticket"), as_number(limit_ns, 64, "a limit"))

    def at(self, time_ns: int, function: Callable[[Sim], None]) -> None:
        """Has it called at that time; it may do all but run the simulation."""
        number, self._next = self._next, self._next + 1
        self._later[number] = function
        self._do(lib.tram_sim_at, as_number(time_ns, 64, "a time"), self._at, number)

    def _run_later(self, _sim: int, number: int) -> None:
        self._later.pop(number)(self)

    @property
    def now(self) -> int:
        return int(self._look(lib.tram_sim_now))

    @property
    def events(self) -> int:
        return int(self._look(lib.tram_sim_events))

    @property
    def hash(self) -> int:
        """Over every event so far: equal for equal runs."""
        return int(self._look(lib.tram_sim_hash))

    def client(self, on_reply: Reply | None = None, on_done: Done | None = None) -> SimClient:
        """Opens a client."""
        return SimClient(self, on_reply, on_done)

    # ---- faults ----

    def kill(self, host: str, keep_memory: bool = False) -> None:
        """Kills a host. Its memory outlives it if keep_memory, as on one machine that of a killed process does."""
        self._do(lib.tram_sim_kill, as_name(host), keep_memory)

    def start(self, host: str) -> None:
        self._do(lib.tram_sim_start, as_name(host))

    def power_cut(self, host: str) -> None:
        """The host loses its process, its memory, and what its disk was not told to keep."""
        self._do(lib.tram_sim_power_cut, as_name(host))

    def stop(self, host: str) -> None:
        """As SIGSTOP does."""
        self._do(lib.tram_sim_stop, as_name(host))

    def resume(self, host: str) -> None:
        """As SIGCONT does."""
        self._do(lib.tram_sim_continue, as_name(host))

    def cut(self, sender: str, receiver: str, cut: bool = True) -> None:
        """Cuts the way from one host or client to another, or heals it."""
        self._do(lib.tram_sim_cut, as_name(sender), as_name(receiver), cut)

    def delay(self, sender: str, receiver: str, extra_ns: int) -> None:
        """Everything takes so much longer on that way."""
        self._do(lib.tram_sim_delay, as_name(sender), as_name(receiver), as_number(extra_ns, 64, "a delay"))

    def chaos(self) -> None:
        """From now on faults come from the seed, never more at once than what the groups are built to lose."""
        self._look(lib.tram_sim_chaos)

    def heal(self) -> None:
        """Ends chaos and repairs everything."""
        self._look(lib.tram_sim_heal)

    # ---- looking ----

    def leader(self, group: str = "") -> str | None:
        """The host that leads the group; under protocol group, the keepers."""
        name: bytes | None = self._look(lib.tram_sim_leader, as_name(group))
        return None if name is None else name.decode()

    def replica(self, host: str, group: str) -> ReplicaStats:
        """What the host's replica of the group is doing."""
        stats = s.tram_replica_stats()
        self._do(_replica, as_name(host), as_name(group), stats)
        return stats

    def machine(self, host: str) -> Any:
        """The state machine of the host's present life; None while it is down."""
        life = self._lives_of.get(host)
        return None if life is None else life.machine

    def group(self, host: str) -> SimGroup:
        """The host's member, under protocol group."""
        life = self._lives_of.get(host)
        if not isinstance(life, Member) or not isinstance(life.machine, GroupMachine):
            raise NotFound(f"{host} is down, or no member of a group")
        if host not in self._groups:
            self._groups[host] = SimGroup(self, host, life)
        return self._groups[host]

    def versions(self, host: str, cell: str, version: int = 0, time_ns: int = 0) -> Iterator[Version]:
        """As tramway.versions, of the host's simulated disk."""
        def read(since: int, time: int, function: Any, error: Any) -> int:
            return int(self._look(lib.tram_sim_versions_read, as_name(host), as_name(cell), since, time, function, None, error))
        return pages(self.cluster, read, as_number(version, 64, "a version"), as_number(time_ns, 64, "a time"))

    def check(self) -> None:
        """Judges all that has happened so far: do replicas agree, and does what is promised hold? Violation: not so."""
        found = s.tram_sim_finding()
        try:
            self._do(lib.tram_sim_check, found)
        except Violated as e:
            violation = Violation(str(e))
            violation.finding = _finding(self.cluster, found)
            raise violation from None


def _finding(cluster: Cluster, f: s.tram_sim_finding) -> Finding:
    def known(value: int, bits: int = 64) -> int | None:
        return None if value == 2**bits - 1 else value

    hosts = tuple(cluster.hosts[host] for host in f.host if host < len(cluster.hosts))
    return Finding(f.property.decode(), known(f.group, 32), hosts, known(f.client, 32), known(f.life, 32), known(f.seq),
                   known(f.number), known(f.time_ns), f.text.decode(errors="replace"))


_libc = ctypes.CDLL(None, use_errno=True)
_libc.fopen.restype = ctypes.c_void_p
_libc.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
_libc.fclose.argtypes = [ctypes.c_void_p]


def _open_file(path: str) -> int:
    file: int | None = _libc.fopen(as_name(path), b"w")
    if file is None:
        error = ctypes.get_errno()
        raise OSError(error, "open", path)
    return file
