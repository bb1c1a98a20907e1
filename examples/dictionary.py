#!/usr/bin/env python3
"""A replicated dictionary: hosts keep it, and a client puts and gets, several keys at once.

    dictionary.py CLUSTER_FILE host NAME                      a host, until ^C; start all of them
    dictionary.py CLUSTER_FILE put KEY VALUE [KEY VALUE]... | get KEY...
    dictionary.py CLUSTER_FILE demo                           three hosts as processes, and a client

Each key belongs to a group of the cluster file. What is put at once is one message to the groups of all its keys, and so is what is
read at once: whoever reads sees all of it or nothing.
"""
import json
import os
import signal
import subprocess
import sys
import zlib

import tramway


class Dictionary(tramway.Machine):
    """The replicas of all groups of a host: a dictionary for each."""

    def __init__(self):
        self.group = {}

    def deliver(self, d):
        mine = self.group.setdefault(d.group, {})
        words = json.loads(d.body)
        mine.update(words["put"].get(d.group, {}))
        return json.dumps({key: mine.get(key) for key in words["get"].get(d.group, [])}).encode()

    def save(self, group):
        return json.dumps(self.group.get(group, {}), sort_keys=True).encode()  # equal states are equal bytes

    def load(self, group, state):
        self.group[group] = json.loads(state)


def group_of(key, groups):
    return groups[zlib.crc32(key.encode()) % len(groups)]  # the same in every process, as hash() is not


class Client:
    def __init__(self, cluster):
        self.groups = cluster.groups
        self.client = tramway.Client(cluster)

    def call(self, put, get):
        """Which keys each group is to put, and which to get."""
        words = {"put": {}, "get": {}}
        for key, value in put.items():
            words["put"].setdefault(group_of(key, self.groups), {})[key] = value
        for key in get:
            words["get"].setdefault(group_of(key, self.groups), []).append(key)
        replies = self.client.call({*words["put"], *words["get"]}, json.dumps(words).encode(), timeout=10)
        return {key: value for reply in replies.values() for key, value in json.loads(reply).items()}

    def put(self, *words):
        self.call(dict(zip(words[::2], words[1::2])), [])

    def get(self, *keys):
        return self.call({}, keys)


def serve(cluster, name):
    with tramway.Host(cluster, name, Dictionary()) as host:
        signal.signal(signal.SIGTERM, lambda *_: host.stop())
        try:
            host.run()
        except KeyboardInterrupt:
            pass


def demo(cluster, file):
    env = dict(os.environ, DICTIONARY_NAME=f"dictionary-{os.getpid()}")  # two runs at once do not meet
    cluster.rename(env["DICTIONARY_NAME"])
    hosts = [subprocess.Popen([sys.executable, __file__, file, "host", name], env=env) for name in cluster.hosts]
    try:
        client = Client(cluster)
        client.put("red", "apples", "green", "pears")
        hosts[0].kill()  # any one of three
        client.put("red", "pears", "green", "apples")
        print(f"{client.get('red', 'green')}, with one host of three dead")
        client.client.close()
    finally:
        for host in hosts:
            host.terminate()
            host.wait()


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    file, command, *rest = sys.argv[1:]
    cluster = tramway.Cluster.load(file)
    cluster.rename(os.environ.get("DICTIONARY_NAME", "dictionary"))
    if command == "host":
        serve(cluster, *rest)
    elif command == "demo":
        demo(cluster, file)
    else:
        print(getattr(Client(cluster), command)(*rest) or "done")


if __name__ == "__main__":
    main()
