"""A member of a group in a process of its own, for the tests of this folder: `members.py FILE HOST`. It ends well on SIGTERM."""
import signal
import sys

import tramway


class Map(tramway.GroupMachine):
    """A dictionary: "key=value" sets, a call replies with what was there before, a query is a key."""

    def __init__(self):
        self.state = {}
        self.views = []
        self.returned_data = []

    def set(self, data):
        key, _, value = data.partition(b"=")
        before = self.state.get(key, b"")
        self.state[key] = value
        return before

    def deliver(self, cell, view, items):
        for item in items:
            if item.data == b"fail":
                raise RuntimeError("this machine was told to fail")
            self.set(item.data)

    def call(self, cell, view, item):
        return self.set(item.data)

    def query(self, cell, asker, data):
        if data == b"all":
            return b"\n".join(b"%s=%s" % pair for pair in sorted(self.state.items()))
        if data not in self.state:
            raise tramway.NotFound("no such key")
        return self.state[data]

    def view(self, before, now):
        self.views.append(now)

    def returned(self, cell, data):
        self.returned_data.append(data)

    def born(self, cell):
        self.state = {}

    def save(self, cell):
        return b"\n".join(b"%s=%s" % pair for pair in sorted(self.state.items()))

    def load(self, cell, state):
        self.state = dict(line.split(b"=", 1) for line in state.split(b"\n") if line)


def main():
    cluster = tramway.Cluster.load(sys.argv[1])
    cluster.log(lambda level, line: print(level.name, line, flush=True))
    with tramway.Group(cluster, sys.argv[2], Map()) as group:
        signal.signal(signal.SIGTERM, lambda *_: group.stop())
        # A topic that this member publishes what it hears on another one.
        echo = tramway.Topic(group, "echo", publish=True)
        waiting = []
        tramway.Topic(group, "said", on_samples=lambda view, items: waiting.extend(item.data for item in items))
        while not group._stopping:
            group.step()
            try:
                while waiting:
                    echo.publish(waiting[0] + b" from " + sys.argv[2].encode())
                    waiting.pop(0)
            except (tramway.Again, tramway.Refused):
                pass
    print("ends well", flush=True)


if __name__ == "__main__":
    main()
