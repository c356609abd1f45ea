"""Asks vLLM itself how much of a prompt it reuses, and writes the answers for tests/reuse_fixture.rs.

    python make_reuse_vllm.py [SEED] > reuse_vllm.json      (needs vLLM; made with 0.32.0)

A case is a model's cache groups, a prompt, and the blocks of the prompt that each group still holds. vLLM's own code
chooses the hash block and the alignment, builds the coordinator, and looks up what is reused, exactly as its scheduler
does when the request arrives. Nothing of the rule is written down here: this script only draws cases.

Left out, because an event stream does not show them (kv_index::reuse says what follows):
* decode-context parallelism, with which vLLM ends prefixes inside full-attention blocks although states are as fine as
  the unit;
* EAGLE for hybrid models: which groups hold the drafter's layers is not on the wire. Under `eagle` are models of one
  full-attention group with a drafter.
A chunk's length is not on the wire either (and where it is no multiple of the block, vLLM may take a lower candidate
unseen). Chunked cases are under `at_most`: they must never be credited with more than vLLM reuses.
"""

import json
import random
import sys
from types import SimpleNamespace

import torch
import vllm
from vllm.v1.core.kv_cache_coordinator import get_kv_cache_coordinator
from vllm.v1.core.kv_cache_utils import make_block_hash_with_group_id, resolve_kv_cache_block_sizes
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    MambaSpec,
    SlidingWindowSpec,
)

ABOUT = (
    "What vLLM {} reuses of a prompt, found by running its (Apache-2.0) lookup code on drawn cases; no code was copied. "
    "Made by make_reuse_vllm.py. `cached` lists the unit in which each held block ends, counted from 0."
)
ATTENTION = dict(num_kv_heads=1, head_size=8, dtype=torch.float16)
WINDOWS = [1, 2, 15, 16, 17, 18, 33, 40, 63, 64, 65, 100, 129, 1000]
# The groups of the models drawn from: f = full, w = window, m = mamba.
MODELS = """
    f w m ff ww wm mm fw fw fm fm fm ffm ffm ffm ffm fww fww fwm fwm fwm fmm fmm wwm fwwm fwmm
""".split()


def draw_groups(rng, model):
    """One model's groups: [kind, block tokens, window tokens]. Often one block size, else multiples of 16."""
    sizes = rng.choice([[16], [16], [16, 32], [16, 32, 64], [32, 48], [32], [64]])
    kinds = {"f": "full", "w": "window", "m": "mamba", "c": "chunk"}
    window = {"f": lambda: None, "m": lambda: None, "w": lambda: rng.choice(WINDOWS), "c": lambda: 16 * rng.randint(1, 6)}
    return [[kinds[letter], rng.choice(sizes), window[letter]()] for letter in model]


def spec(kind, block, window, mode):
    match kind:
        case "full":
            return FullAttentionSpec(block_size=block, **ATTENTION)
        case "window":
            return SlidingWindowSpec(block_size=block, sliding_window=window, **ATTENTION)
        case "chunk":
            return ChunkedLocalAttentionSpec(block_size=block, attention_chunk_size=window, **ATTENTION)
        case "mamba":
            return MambaSpec(block_size=block, shapes=((1,),), dtypes=(torch.float16,), mamba_cache_mode=mode)


class Engine:
    """vLLM's coordinator for one model. Raises what vLLM raises for a model that it refuses."""

    def __init__(self, groups, mode, match_unit, eagle):
        specs = [KVCacheGroupSpec([f"layer{i}"], spec(*group, mode)) for i, group in enumerate(groups)]
        config = KVCacheConfig(num_blocks=2, kv_cache_tensors=[], kv_cache_groups=specs)
        cache = SimpleNamespace(block_size=groups[0][1], prefix_match_unit=match_unit, enable_prefix_caching=True)
        settings = SimpleNamespace(
            cache_config=cache, parallel_config=SimpleNamespace(decode_context_parallel_size=1), kv_transfer_config=None
        )
        scheduler_block, self.unit = resolve_kv_cache_block_sizes(config, settings)
        self.coordinator = get_kv_cache_coordinator(
            config, 1 << 20, 1 << 20, eagle, True, False, 1, 1, scheduler_block_size=scheduler_block, hash_block_size=self.unit
        )

    def reused(self, request_tokens, held):
        """Tokens that a request reuses while each group holds the blocks that end in the units of `held`."""
        hashes = [b"%032d" % unit for unit in range(request_tokens // self.unit)]
        pool = self.coordinator.block_pool
        pool.cached_block_hash_to_block._cache.clear()
        for group, units in enumerate(held):
            for unit in units:
                pool.cached_block_hash_to_block.insert(make_block_hash_with_group_id(hashes[unit], group), pool.blocks[1])
        return self.coordinator.find_longest_cache_hit(hashes, request_tokens - 1)[1]


def draw_held(rng, engine, groups, request_tokens):
    """What each group still holds. All share a point up to which the prompt was seen; behind it they hold little."""
    seen = int(request_tokens * rng.choice([1, 1, 0.9, rng.random()]))
    return [draw_group(rng, engine, group, request_tokens, seen) for group in groups]


def draw_group(rng, engine, group, request_tokens, seen):
    kind, block, window = group
    units = block // engine.unit
    ends = [end - 1 for end in range(units, request_tokens // engine.unit + 1, units)]
    hole, stray = rng.choice([0, 0.02, 0.1]), rng.choice([0, 0.1])
    if kind in ("window", "chunk") and rng.random() < 0.7:
        held = held_tails(rng, ends, block, window)
    elif kind == "mamba":
        held = {end for end in ends if rng.random() < rng.choice([0.15, 0.4, 0.9])}
    else:
        held = {end for end in ends if rng.random() >= hole}
    held = {end for end in held if (end + 1) * engine.unit <= seen or rng.random() < stray}
    if kind in ("full", "mamba"):
        held |= draw_partial(rng, kind, units, seen // engine.unit)
    return sorted(held)


def held_tails(rng, ends, block, window):
    """What is left of a window group: the window, a block more or less, before a few places."""
    held = set()
    for _ in range(rng.randint(1, 4)):
        last = rng.randint(0, len(ends)) if ends else 0
        length = -(-(window - 1) // block) + rng.choice([-1, 0, 0, 0, 1, 3])
        held.update(ends[max(0, last - max(length, 0)) : last])
    return held


def draw_partial(rng, kind, units, seen):
    """Entries inside blocks: states at any unit, and the ends of earlier prompts inside full blocks. Where vLLM does not
    end prefixes inside blocks, they must change nothing."""
    share = rng.choice([0.05, 0.2]) if kind == "mamba" else rng.choice([0, 0.1, 0.3])
    return {unit for unit in range(seen) if (unit + 1) % units and rng.random() < share}


def draw_case(rng, models, eagle):
    """A case, or nothing where vLLM refuses the model."""
    groups = draw_groups(rng, rng.choice(models))
    try:
        engine = Engine(groups, rng.choice(["align", "align", "all"]), rng.choice([None, 16, 8]), eagle)
    except (AssertionError, ValueError):
        return None
    request_tokens = engine.unit * rng.randint(2, 40) + rng.choice([0, 0, 1, rng.randrange(engine.unit)])
    held = draw_held(rng, engine, groups, request_tokens)
    return engine, groups, request_tokens, held, engine.reused(request_tokens, held)


def render(engine, groups, request_tokens, held, hit):
    rendered = []
    for (kind, block, window), units in zip(groups, held):
        rendered.append({"kind": kind, "block_tokens": block} | ({"window_tokens": window} if window else {}) | {"cached": units})
    return {"request_tokens": request_tokens, "unit_tokens": engine.unit, "groups": rendered, "expected_hit_tokens": hit}


def draw(rng, models, count, eagle=False):
    """`count` distinct cases, at most one in eight without a hit."""
    cases, misses = {}, 0
    while len(cases) < count:
        try:
            case = draw_case(rng, models, eagle)
        except AssertionError:
            continue  # Chunks beside other block sizes: vLLM asserts only when it looks up.
        if case is None or (case[-1] == 0 and misses * 8 >= count):
            continue
        text = json.dumps(render(*case), separators=(",", ":"))
        misses += case[-1] == 0 and text not in cases
        cases[text] = None
    return list(cases)


def main():
    rng = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 20260)
    register_all_kvcache_specs(None)
    lists = {
        "exact": draw(rng, MODELS, 400),
        "at_most": draw(rng, ["c", "fc", "fcw", "cc"], 40),
        "eagle": draw(rng, ["f"], 20, eagle=True),
    }
    texts = ['"%s":[\n%s\n]' % (name, ",\n".join(cases)) for name, cases in lists.items()]
    print('{"_about":%s,\n%s}' % (json.dumps(ABOUT.format(vllm.__version__)), ",\n".join(texts)))


if __name__ == "__main__":
    main()
