#!/usr/bin/env python3
"""Topics with asyncio: a task that subscribes, a task that publishes, a task that counts, in one loop and one thread.

    readings.py CLUSTER_FILE            members of the group are three more processes, which it starts
    readings.py CLUSTER_FILE member H   one of them

The subscriber is a program outside of the group: it holds up nobody, and what it does not take in time is lost to it, and counted.
"""
import asyncio
import os
import signal
import struct
import subprocess
import sys

import tramway
from tramway import aio

READING = struct.Struct("<Qd")  # number, degrees
READINGS = 2000


def member(cluster, host):
    """Carries the topics, publishes nothing itself, and ends with its parent."""
    parent = os.getppid()
    with tramway.Group(cluster, host) as group:
        signal.signal(signal.SIGTERM, lambda *_: group.stop())
        group.run(until=lambda: os.getppid() != parent)


async def publish(client):
    topic = tramway.ClientTopic(client.handle, "readings", publish=True)
    for number in range(READINGS):
        while True:
            try:
                topic.publish(READING.pack(number, 20 + number % 7))
                break
            except tramway.Again:  # too much is under way: let others have a turn
                await asyncio.sleep(0.001)
        client.kick()
        if number % 50 == 0:
            await asyncio.sleep(0)


async def listen(subscription, counts):
    async for batch in subscription:
        for item in batch:
            number, degrees = READING.unpack(item.data)
            counts["readings"] += 1
            counts["warmest"] = max(counts["warmest"], degrees)
            if number == READINGS - 1:
                return


async def bus(cluster):
    counts = {"readings": 0, "warmest": 0}
    async with aio.GroupClient(cluster) as listener, aio.GroupClient(cluster) as speaker:
        subscription = listener.subscribe("readings")
        while not subscription.topic.fed:  # what is said before nobody hears
            await asyncio.sleep(0.01)
        await asyncio.wait_for(asyncio.gather(listen(subscription, counts), publish(speaker)), 60)
        print(f"{counts['readings']} readings, {subscription.lost} lost, the warmest {counts['warmest']:.0f} degrees")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    cluster = tramway.Cluster.load(sys.argv[1])
    name = os.environ.setdefault("READINGS_NAME", f"readings-{os.getpid()}")  # two runs at once do not meet
    cluster.rename(name)
    if sys.argv[2:3] == ["member"]:
        member(cluster, sys.argv[3])
        return
    members = [subprocess.Popen([sys.executable, __file__, sys.argv[1], "member", host]) for host in cluster.hosts]
    try:
        asyncio.run(bus(cluster))
    finally:
        for process in members:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
