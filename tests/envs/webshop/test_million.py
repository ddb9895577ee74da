"""A million products: the import streams, the shop opens in seconds and stays under 2 GB. Writes the evidence file.

Peak memory is that of the whole process, pages of mapped files included.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PRODUCTS = 1_000_000
LIMIT = 2 * 2**30  # bytes

WRITE = """
import json, sys
from creditflow.envs.webshop.catalogue.embedded import RandomSource, make_products
from pathlib import Path
folder, total = Path(sys.argv[1]), int(sys.argv[2])
with (folder / "items_shuffle.json").open("w") as items, (folder / "items_ins_v2.json").open("w") as entries:
    items.write("["), entries.write("{")
    for block in range(total // 1000):
        products, rng = make_products(block), RandomSource(block, 7)
        for i, product in enumerate(products):
            number, other = block * 1000 + i, products[rng.below(1000)]
            comma = "," if number else ""
            asin = f"S{number:09d}"
            record = {
                "asin": asin, "name": f"{product.title} {rng.below(40_000)}",
                "full_description": f"{product.description} {other.description}",
                "small_description": [*product.bullets, *other.bullets[:1]],
                "pricing": " - ".join(f"${price}" for price in product.prices), "images": [],
                "customization_options": {n: [{"value": v} for v in values] for n, values in product.options} or "",
                "category": product.category, "query": product.query, "product_category": product.product_category,
            }
            entry = {"attributes": list(product.attributes)}
            if rng.bernoulli(41):
                entry |= {"instruction": f"Find me {product.query}", "instruction_attributes": entry["attributes"][:2]}
            items.write(comma + json.dumps(record)), entries.write(comma + json.dumps(asin) + ":" + json.dumps(entry))
    items.write("]"), entries.write("}")
"""
IMPORT = """
import json, resource, sys, time
from creditflow.envs.webshop.catalogue.importing import import_webshop
start = time.perf_counter()
report = import_webshop(sys.argv[1], sys.argv[2])
print(json.dumps({"seconds": time.perf_counter() - start, "products": report.products, "goals": dict(report.goals),
    "store_bytes": report.bytes, "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""
PLAY = """
import json, resource, sys, time
start = time.perf_counter()
import creditflow
envs = [creditflow.make("webshop", data=sys.argv[1], preset="verl_agent", seed=42) for _ in range(64)]
_, info = envs[0].reset(seed=0)
opened = time.perf_counter() - start
engine = envs[0].unwrapped.stock.catalogue.engine
queries, steps = [], 0
start = time.perf_counter()
for seed in range(200):
    env = envs[seed % 64]
    _, info = env.reset(seed=seed)
    queries.append(info["admissible_actions"][0][7:-1])
    while info["admissible_actions"]:
        actions = info["admissible_actions"]
        info = env.step(actions[(7 * steps + seed) % len(actions)])[4]
        steps += 1
seconds = time.perf_counter() - start
start = time.perf_counter()
for query in queries:
    engine.search(query, 50)
print(json.dumps({"open_and_first_reset_seconds": opened, "environments": 64, "episodes": 200, "steps": steps,
    "steps_per_second": steps / seconds, "search_ms": 1000 * (time.perf_counter() - start) / len(queries),
    "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""


def run(script, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout) if done.stdout else {}


@pytest.mark.slow
def test_a_million_products_open_in_seconds_and_stay_under_two_gigabytes(tmp_path):
    run(WRITE, tmp_path, PRODUCTS)
    source_bytes = sum(path.stat().st_size for path in tmp_path.iterdir())
    imported = run(IMPORT, tmp_path, tmp_path / "store")
    played = run(PLAY, tmp_path / "store")
    assert imported["products"] == PRODUCTS
    assert imported["peak_bytes"] < LIMIT
    assert played["peak_bytes"] < LIMIT
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=True)
    evidence = {
        "job": "webshop_million",
        "commit": commit.stdout.strip(),
        "versions": {"python": platform.python_version(), "numpy": version("numpy")},
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "source_bytes": source_bytes,
        "import": imported,
        "play": played,
    }
    path = ROOT / "tests" / "evidence" / "webshop_million.json"
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(evidence, indent=1) + "\n", encoding="ascii")
    temporary.replace(path)
