"""A host in a process of its own, for the tests of this folder: `hosts.py FILE HOST [KIND]`. It ends well on SIGTERM."""
import signal
import sys

import tramway


class Words(tramway.Machine):
    """Keeps the last message under each first word, and replies with how many it has delivered and the message before."""

    def __init__(self):
        self.state = {}

    def deliver(self, d):
        if d.body == b"fail":
            raise RuntimeError("this machine was told to fail")
        word = d.body.split(b" ")[0]
        words = self.state.setdefault(d.group, {})
        before = words.get(word, b"")
        words[word] = d.body
        return b"%d %s" % (d.number, before[:40])

    def save(self, group):
        return b"\n".join(b"%s=%s" % pair for pair in sorted(self.state.get(group, {}).items()))

    def load(self, group, state):
        self.state[group] = dict(line.split(b"=", 1) for line in state.split(b"\n") if line)


class Pieces(tramway.Machine):
    """The same in pieces of another size than the library's."""

    def __init__(self):
        self.words = Words()
        self.coming = b""
        self.deliver = self.words.deliver

    def deliver(self, d):
        return self.words.deliver(d)

    def save_pieces(self, group):
        state = self.words.save(group)
        yield b""
        for at in range(0, len(state), 1000):
            yield state[at:at + 1000]

    def load_begin(self, group):
        self.coming = b""

    def load_piece(self, group, piece):
        self.coming += piece

    def load_end(self, group, whole):
        if whole:
            self.words.load(group, self.coming)


def main():
    cluster = tramway.Cluster.load(sys.argv[1])
    cluster.log(lambda level, line: print(level.name, line, flush=True))
    machine = Pieces() if sys.argv[3:] == ["pieces"] else Words()
    with tramway.Host(cluster, sys.argv[2], machine) as host:
        signal.signal(signal.SIGTERM, lambda *_: host.stop())
        print("runs", flush=True)
        host.run()
    print("ends well", flush=True)


if __name__ == "__main__":
    main()
