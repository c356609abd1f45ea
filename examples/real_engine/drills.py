#!/usr/bin/env python3
"""Fault drills with a real vLLM on CPU: something is killed or cut under load, and afterwards every prediction must be what the engine
reports.

Each drill has an engine, the gateway, and between them links that can be cut; half of them have a relay beside the engine, with a history so
short that who comes back needs a snapshot. Two clients send requests all the time. A drill does its fault, heals it, and measures until the
gateway calls its index exact again. Then the clients end, and `compare` sends requests one by one: all of them must report what was
predicted, and some of what the engine held before must be found, or the drill fails.

    examples/real_engine/setup.sh                     # once
    examples/real_engine/drills.py                    # all of them: about 10 minutes on 2 cores
    examples/real_engine/drills.py relay-killed link-cut
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ENGINE, EVENTS, REPLAY = 18000, 15557, 15657          # where the engine listens
GATEWAY, RELAY = 18080, 15600                         # and we
EVENTS_LINK, REPLAY_LINK, RELAY_LINK = 16557, 16657, 16600  # what the gateway is told

POOL_BLOCKS = 200   # of 32 tokens: some thirty prompts
CUT_S = 5           # how long a link stays cut
CALM_S = 4          # load before the fault, and after it
EXACT_MAX_S = 60    # how long all may take to be exact again
START_MAX_S = 400   # a first start compiles for minutes


class Link:
    """A TCP proxy to one port of this machine, which can be cut."""

    def __init__(self, port, target):
        self.target, self.whole, self.open = target, True, set()
        self.listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Breaks all connections, and every new one at once."""
        self.whole = False
        for end in list(self.open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self):
        self.whole = True

    def close(self):
        self.cut()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts, without which the port stays taken
        self.listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near):
        with near, contextlib.suppress(OSError):
            if not self.whole:
                return
            with socket.create_connection(("127.0.0.1", self.target)) as far:
                self.open |= {near, far}
                back = threading.Thread(target=pass_on, args=(far, near), daemon=True)
                back.start()
                pass_on(near, far)
                back.join()
                self.open -= {near, far}


def pass_on(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class Site:
    """Everything that one drill needs."""

    def __init__(self, logs, has_relay):
        self.logs, self.has_relay, self.running, self.clients = logs, has_relay, {}, []
        self.links = [Link(EVENTS_LINK, EVENTS), Link(REPLAY_LINK, REPLAY)]
        if has_relay:
            self.links.append(Link(RELAY_LINK, RELAY))

    def start(self):
        self.start_engine()
        if self.has_relay:
            self.start_relay()
        self.start_gateway()
        await_answer(GATEWAY, "/health", 30)
        self.load()
        self.await_exact()

    def start_engine(self):
        self._run("engine", HERE / "start_vllm.sh", ENGINE, EVENTS, REPLAY, "--num-gpu-blocks-override", POOL_BLOCKS)
        await_answer(ENGINE, "/v1/models", START_MAX_S)

    def start_relay(self):
        self._run("relay", example("relay"), "--engine-events", f"tcp://127.0.0.1:{EVENTS_LINK}",
                  "--replay", f"tcp://127.0.0.1:{REPLAY_LINK}", "--listen", f"127.0.0.1:{RELAY}", "--history-batches", 20)

    def start_gateway(self):
        events = f"grpc://127.0.0.1:{RELAY_LINK}" if self.has_relay else \
            f"tcp://127.0.0.1:{EVENTS_LINK},replay=tcp://127.0.0.1:{REPLAY_LINK}"
        self._run("gateway", example("gateway"), "--listen", f"127.0.0.1:{GATEWAY}",
                  "--engine", f"http://127.0.0.1:{ENGINE},name=one,events={events}")

    def kill(self, name):
        """As the system's memory killer does it: with all children, and without a word."""
        process = self.running.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def load(self):
        """Two clients that never pause. What they are answered while something is broken does not matter."""
        for seed in (1, 2):
            self.clients.append(subprocess.Popen(compare(seed, 1_000_000, 0, 0), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def keep_loaded(self):
        """Clients that a dead gateway ended begin again."""
        self.unload()
        self.load()

    def unload(self):
        for client in self.clients:
            client.kill()
            client.wait()
        self.clients.clear()

    def await_exact(self):
        """Seconds until every rank is exact and served."""
        begun = time.monotonic()
        while True:
            states = self.states()
            if states and all(state == ("exact", None) for state in states):
                return time.monotonic() - begun
            if time.monotonic() - begun > EXACT_MAX_S:
                raise Failed(f"after {EXACT_MAX_S} s the ranks are {states}; logs in {self.logs}")
            time.sleep(0.02)

    def states(self):
        with contextlib.suppress(OSError, ValueError):
            engines = json.loads(get(GATEWAY, "/debug/workers"))
            return [(rank["trust"], rank["veto"]) if engine["ready"] else ("not ready", None)
                    for engine in engines for rank in engine["ranks"]]
        return []

    def check(self, requests):
        """Sends the clients' prompts again, one by one, and returns what `compare` says of them."""
        time.sleep(1)
        done = subprocess.run(compare(1, requests, 100, 60), capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"{done.stdout}{done.stderr}")
        lines = done.stdout.strip().splitlines()
        reported = int(next(line for line in lines if line.startswith("all")).split()[-1])
        if not reported:
            raise Failed("nothing was found in the cache, so nothing was shown")
        return f"{lines[-1]}; {reported} tokens from the cache"

    def stop(self):
        self.unload()
        for name in list(self.running):
            self.kill(name)
        for link in self.links:
            link.close()

    def _run(self, name, *arguments):
        with open(self.logs / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen([str(argument) for argument in arguments], stdout=log, stderr=log, start_new_session=True)


class Failed(Exception):
    """Why a drill is not passed."""


def gateway_killed(site):
    site.kill("gateway")
    site.start_gateway()


def link_cut(site):
    """Between the gateway and what it reads."""
    links = site.links[2:] if site.has_relay else site.links
    for link in links:
        link.cut()
    time.sleep(CUT_S)
    for link in links:
        link.mend()


def engine_link_cut(site):
    """Between the relay and its engine."""
    for link in site.links[:2]:
        link.cut()
    time.sleep(CUT_S)
    for link in site.links[:2]:
        link.mend()


def relay_killed(site):
    site.kill("relay")
    site.start_relay()


def engine_restarted(site):
    site.kill("engine")
    site.start_engine()


DRILLS = {  # name: (what happens, with a relay)
    "gateway-killed": (gateway_killed, False),
    "link-cut": (link_cut, False),
    "engine-restarted": (engine_restarted, False),
    "relay-killed": (relay_killed, True),
    "gateway-killed-beside-relay": (gateway_killed, True),
    "relay-link-cut": (link_cut, True),
    "engine-link-cut-at-relay": (engine_link_cut, True),
    "engine-restarted-behind-relay": (engine_restarted, True),
}


def drill(name, site, requests):
    fault, _ = DRILLS[name]
    site.keep_loaded()
    time.sleep(CALM_S)
    begun = time.monotonic()
    fault(site)
    healed = time.monotonic()
    # A link that is mended is not known to be so before something crosses it.
    exact = site.await_exact()
    site.keep_loaded()
    time.sleep(CALM_S)
    site.await_exact()
    site.unload()
    settled = site.await_exact()
    print(f"{name:<32}fault {healed - begun:6.2f} s   exact {exact:6.2f} s after it   settled {settled:5.2f} s   {site.check(requests)}", flush=True)


def compare(seed, requests, percent_min, pause_ms):
    options = {"gateway": f"http://127.0.0.1:{GATEWAY}", "seed": seed, "requests": requests, "percent-min": percent_min, "pause-ms": pause_ms}
    return [example("compare"), *(f"--{name}={value}" for name, value in options.items())]


def example(name):
    target = os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent / "target")
    return str(pathlib.Path(target) / "release" / "examples" / name)


def get(port, path):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
        return answer.read()


def await_answer(port, path, seconds_max):
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            return get(port, path)
        time.sleep(0.1)
    raise Failed(f"port {port} did not answer {path} in {seconds_max} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("drills", nargs="*", metavar="DRILL", help=", ".join(DRILLS))
    parser.add_argument("--requests", type=int, default=60, help="how many to compare after each drill (60)")
    options = parser.parse_args()
    names = options.drills or list(DRILLS)
    if unknown := [name for name in names if name not in DRILLS]:
        parser.error(f"unknown: {', '.join(unknown)}; expected any of {', '.join(DRILLS)}")
    if not (pathlib.Path(os.environ.get("KV_ENGINES", pathlib.Path.home() / ".cache/kv-engines")) / "tiny").is_dir():
        sys.exit(f"no engines: run {HERE / 'setup.sh'} first")
    built = ["cargo", "build", "--release", "--manifest-path", HERE.parent / "Cargo.toml"]
    subprocess.run([*built, *(f"--example={name}" for name in ("gateway", "relay", "compare"))], check=True)
    logs, failures, site = pathlib.Path(tempfile.mkdtemp(prefix="drills-")), 0, None
    try:
        for name in names:
            # The engine goes on from drill to drill; a relay comes and goes.
            if site is None or site.has_relay != DRILLS[name][1]:
                if site is not None:
                    site.stop()
                site = Site(logs, DRILLS[name][1])
                site.start()
            try:
                drill(name, site, options.requests)
            except Failed as why:
                failures += 1
                print(f"{name:<32}FAILED: {why}", flush=True)
                site.stop()
                site = None
    finally:
        if site is not None:
            site.stop()
    print(f"{len(names) - failures} of {len(names)} drills passed; logs in {logs}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
