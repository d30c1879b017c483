"""Prices of houses, drawn at random to be like those of California: heavy tails, a coast, capped prices."""

from __future__ import annotations

import numpy as np

from deepcanon.core import Labeled
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import cut, fixed_random
from deepcanon.data.tables.number_table import number_table

CAP = 5.0
"""No price is above it, as in the census of California, in 100,000 dollars."""
CITIES = ((37.8, -122.4, 1.6), (34.0, -118.3, 1.2))
"""Latitude, longitude, and how far each raises the prices around it."""


def load(entry: Entry) -> Dataset[Labeled]:
    """The districts in a fixed split, standardized on the training split."""
    x, price = drawn(sum(entry.counts), seed=0)
    splits = cut(fixed_random(1).permutation(len(price)), entry.counts)
    return number_table(entry, list(x), np.column_stack(list(x.values())), "price", price, splits)


def drawn(rows: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The columns of some districts, and the median price of a house in each."""
    random = fixed_random(seed)
    latitude = random.uniform(32.5, 42, rows)
    east = random.gamma(1.5, 1.2, rows)  # degrees from the coast, where most live
    longitude = -117.2 - 0.75 * (latitude - 32.5) + east
    income = random.lognormal(1.25, 0.45, rows)
    age = random.randint(1, 53, rows).astype(np.float64)
    rooms = random.lognormal(1.65, 0.25, rows)
    people = 1 + random.lognormal(0.6, 0.4, rows)
    near = sum(
        gain * np.exp(-((latitude - north) ** 2 + (longitude - west) ** 2) / 0.8) for north, west, gain in CITIES
    )
    price = 0.25 + 0.42 * income - 0.22 * (people - 2.8) + 0.004 * age + near + 0.5 * (east < 0.4)
    price = price * random.lognormal(0, 0.22, rows)
    columns = {
        "income": income, "age": age, "rooms": rooms, "people": people, "latitude": latitude, "longitude": longitude,
    }  # fmt: skip
    return columns, np.clip(price, 0.15, CAP)


HOUSES = Entry(
    name="houses",
    kind="table",
    shape=(6,),
    sizes={"features": 6, "targets": 1},
    counts=(2800, 400, 800),
    source="drawn at random, like the census of California in 1990 (Pace and Barry, 1997), standardized",
    load=load,
)
