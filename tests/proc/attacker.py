#!/usr/bin/env python3
"""What somebody without a key can do to the ports of a cluster, for tcp_attack. Ends after so many seconds, or when it is
asked to (SIGTERM), and then prints what it has done.

    attacker.py idle SECONDS COUNT PORT...           holds connections that say nothing
    attacker.py storm SECONDS RATE SESSION PORT...   attempts a second: closed at once, garbage, a ClientHello, half of one
    attacker.py replay SECONDS RATE PORT SESSION...  sends recorded sessions again, whole
    attacker.py record PREFIX LISTEN:TARGET...       a proxy that stores what clients send, a file each
    attacker.py flip SEED LISTEN:TARGET...           a proxy that changes a byte of each connection; SIGUSR1: it does not any more
    attacker.py rogue garbage|silent PORT            listens where a host should
    attacker.py capture TEXT END                     how many packets of the loopback have that text, until one has END; 77: not permitted
"""
import collections
import errno
import os
import random
import resource
import selectors
import signal
import socket
import sys
import time

PLACES = 8  # addresses that connections come from
AGAIN_S = 2.0  # until an idle connection that was closed is dialed again
LINGER_S = 0.3  # how long an attempt is left to itself
FLIP_WITHIN = 3000  # bytes of a connection: its handshake, and some more

stopped = False


def stop(_signal, _frame):
    global stopped
    stopped = True


def dial(port, place=0, wait=False):
    s = socket.socket()
    s.setblocking(wait)
    try:
        s.bind((f"127.0.{place}.1", 0))
        s.connect(("127.0.0.1", port))
    except BlockingIOError:
        pass
    except OSError:
        s.close()
        return None
    return s


def send(s, data):
    """False: the other side is gone."""
    try:
        s.send(data)
    except BlockingIOError:
        pass
    except OSError:
        return False
    return True


def close_hard(s):
    """With a reset: ports in TIME_WAIT would be used up after some 28,000 attempts."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    s.close()


def idle(seconds, count, *ports):
    until = time.monotonic() + float(seconds)
    ports = [int(p) for p in ports]
    selector = selectors.DefaultSelector()
    again = collections.deque((0, i) for i in range(int(count)))
    most = dialed = 0
    while not stopped and time.monotonic() < until:
        now = time.monotonic()
        for _ in range(64):  # not all at once: the listeners' queues have room for some
            if not again or again[0][0] > now:
                break
            i = again.popleft()[1]
            s = dial(ports[i % len(ports)], i % PLACES)
            if s is None:
                again.append((now + AGAIN_S, i))
                continue
            dialed += 1
            selector.register(s, selectors.EVENT_READ, i)
        most = max(most, len(selector.get_map()))
        for key, _ in selector.select(0.02):
            selector.unregister(key.fileobj)
            close_hard(key.fileobj)
            again.append((now + AGAIN_S, key.data))
    print(f"held {most} dialed {dialed}")


def paced(seconds, rate, act, open_sockets):
    """Acts at that rate, and closes sockets some time later."""
    begin = now = time.monotonic()
    done = 0
    while not stopped and now - begin < seconds:
        due = int((now - begin) * rate)
        while done < due:
            s = act(done)
            if s is not None:
                open_sockets.append((now + LINGER_S, s))
            done += 1
        while open_sockets and open_sockets[0][0] < now:
            close_hard(open_sockets.popleft()[1])
        time.sleep(0.002)
        now = time.monotonic()
    return done


def client_hello(path):
    with open(path, "rb") as f:
        data = f.read()
    return data[: 5 + int.from_bytes(data[3:5], "big")]


def storm(seconds, rate, session, *ports):
    hello = client_hello(session)
    waiting = collections.deque()
    failed = 0

    def attempt(n):
        nonlocal failed
        s = dial(int(ports[n // 4 % len(ports)]), n % PLACES)
        if s is None:
            failed += 1
            return None
        if n % 4 == 0:
            s.close()
            return None
        send(s, (None, os.urandom(64), hello, hello[: len(hello) // 2])[n % 4])
        return s

    done = paced(float(seconds), float(rate), attempt, waiting)
    print(f"attempts {done} failed {failed}")


def replay(seconds, rate, port, *sessions):
    data = []
    for path in sessions:
        with open(path, "rb") as f:
            data.append(f.read())
    waiting = collections.deque()

    def attempt(n):
        s = dial(int(port), n % PLACES)
        if s is not None:
            send(s, data[n % len(data)])
        return s

    print(f"replayed {paced(float(seconds), float(rate), attempt, waiting)}")


class Proxy:
    """Carries bytes between whoever connects and a host; what happens to them is in on_bytes."""

    def __init__(self, *routes):
        self.selector = selectors.DefaultSelector()
        self.connections = 0
        for route in routes:
            listen, target = route.split(":")
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", int(listen)))
            s.listen(64)
            self.selector.register(s, selectors.EVENT_READ, ("accept", int(target)))

    def accept(self, listener, target):
        here, _ = listener.accept()
        there = dial(target, wait=True)
        if there is None:
            close_hard(here)
            return
        number = self.connections
        self.connections += 1
        for a, b, forth in ((here, there, True), (there, here, False)):
            a.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            a.setblocking(True)
            self.selector.register(a, selectors.EVENT_READ, ("bytes", b, number, forth))

    def carry(self, a, b, number, forth):
        if a.fileno() < 0:
            return
        try:
            data = a.recv(65536)
            if data:
                b.sendall(self.on_bytes(number, forth, data))
                return
        except OSError:
            pass
        for s in (a, b):
            if s.fileno() >= 0:
                self.selector.unregister(s)
                s.close()

    def on_bytes(self, number, forth, data):
        return data

    def run(self):
        print("ready", flush=True)
        while not stopped:
            for key, _ in self.selector.select(0.1):
                if key.data[0] == "accept":
                    self.accept(key.fileobj, key.data[1])
                else:
                    self.carry(key.fileobj, *key.data[1:])


class Recorder(Proxy):
    def __init__(self, prefix, *routes):
        super().__init__(*routes)
        self.prefix = prefix

    def on_bytes(self, number, forth, data):
        if forth:
            with open(f"{self.prefix}.{number}", "ab") as f:
                f.write(data)
        return data


class Flipper(Proxy):
    def __init__(self, seed, *routes):
        super().__init__(*routes)
        self.random = random.Random(int(seed))
        self.state = {}  # by connection: direction and position of the byte, position now
        self.transparent = False
        self.flipped = 0
        signal.signal(signal.SIGUSR1, self.be_transparent)

    def be_transparent(self, _signal, _frame):
        self.transparent = True

    def on_bytes(self, number, forth, data):
        if number not in self.state:
            self.state[number] = [self.random.random() < 0.5, self.random.randrange(FLIP_WITHIN), 0]
        state = self.state[number]
        if self.transparent or state[0] != forth:
            return data
        at = state[1] - state[2]
        state[2] += len(data)
        if not 0 <= at < len(data):
            return data
        self.flipped += 1
        print(f"flipped {self.flipped}", flush=True)
        return data[:at] + bytes([data[at] ^ 1 << self.random.randrange(8)]) + data[at + 1 :]


def record(prefix, *routes):
    proxy = Recorder(prefix, *routes)
    proxy.run()
    print(f"recorded {proxy.connections}")


def flip(seed, *routes):
    proxy = Flipper(seed, *routes)
    proxy.run()
    print(f"connections {proxy.connections} flipped {proxy.flipped}")


def rogue(kind, port):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", int(port)))
    s.listen(64)
    s.settimeout(0.1)
    print("ready", flush=True)
    came = []
    while not stopped:
        try:
            c, _ = s.accept()
        except socket.timeout:
            continue
        came.append(c)
        if kind == "garbage":
            send(c, os.urandom(4096))
    print(f"came {len(came)}")


def capture(text, end):
    try:
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        s.bind(("lo", 0))
    except OSError as e:
        if e.errno in (errno.EPERM, errno.EACCES, errno.EAFNOSUPPORT, errno.ENODEV):
            sys.exit(77)
        raise
    s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    s.settimeout(0.1)
    print("ready", flush=True)
    packets = found = 0
    data = b""
    while not stopped and end.encode() not in data:
        try:
            data = s.recv(65536 + 64)
        except socket.timeout:
            continue
        packets += 1
        found += text.encode() in data
    print(f"packets {packets} with_text {found}")


def main():
    commands = {f.__name__: f for f in (idle, storm, replay, record, flip, rogue, capture)}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # As if it were on another machine: what it computes itself is not what hosts have to bear. But it does get its turn
    # on a busy machine.
    os.nice(10)
    signal.signal(signal.SIGTERM, stop)
    print("begun", flush=True)
    commands[sys.argv[1]](*sys.argv[2:])


main()
