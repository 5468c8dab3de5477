"""A catalogue of our own that has every oddity of the official files, as such files and as a store."""

import json

from envs.webshop.build import build_store

PLAIN = {
    "full_description": "",
    "small_description": ["Well made."],
    "pricing": "$20",
    "category": "garden",
    "query": "Stools ",
    "product_category": "Home › Seats › Stools",
    "customization_options": "",
    "images": [""],
}


def item(asin, name, **changes):
    return {"asin": asin, "name": name, **PLAIN, **changes}


def options(**values):
    return {name: [{"value": value} for value in found] for name, found in values.items()}


ITEMS = [
    item(
        "B000000001",
        'Oak Stool <b>Tall</b> & "Round"',
        full_description="A stool\nfor two.",
        small_description=["Made of oak.", "   ", "\n", "Won't wobble; it is Sturdy."],
        pricing="$10.99 to $1,020.5",
        customization_options={
            "Color": [{"value": " Wine/Red "}, {"value": "blue"}],
            "Size": [{"value": "Big  One"}],
            "gone": None,
        },
    ),
    item("B000000002", "Pine Stool", small_description="One text only, weatherproof.", pricing=None),
    item("B000000003", "Iron Bench", query="benches", product_category="Home › Seats › Benches", pricing="$995.00"),
    item("B000000004", "Silk Scarf", category="fashion", query="scarves", product_category="Clothes › Scarves"),
    item("B000000005", "???", query="riddles", product_category="Games", category="toys", pricing="$1.2.3"),
    item("nan", "No Number"),
    item("B000000001", "Oak Stool Again"),
    item("B00000000001", "Number Too Long"),
    *(item(f"B0000001{i:02d}", f"Shelf Board {i}", query="boards", product_category="Wood") for i in range(60)),
]
ATTRIBUTES = {
    "B000000001": {
        "attributes": ["hand made", "sturdy"],
        "instruction": "Find me a stool",
        "instruction_attributes": ["hand made", "weatherproof"],
    },
    "B000000002": {"attributes": ["hand-made"]},
    "B000000003": {"attributes": ["heavy"], "instruction": "Find me a bench", "instruction_attributes": ["heavy"]},
    "B000000004": {},
}
HUMAN = {
    "B000000001": [
        {
            "instruction": "i want a red stool...",
            "instruction_attributes": ["sturdy"],
            "instruction_options": ["red", "big one"],
        },
        {"instruction": "not usable", "instruction_attributes": [], "instruction_options": []},
    ],
    "B000000004": [{"instruction": "a scarf", "instruction_attributes": ["soft"], "instruction_options": []}],
}


def write_files(folder, items=ITEMS, attributes=ATTRIBUTES, human=HUMAN):
    """The three official files, as paths."""
    found = []
    for name, data in (("items", items), ("attributes", attributes), ("human", human)):
        found.append(folder / f"{name}.json")
        found[-1].write_text(json.dumps(data))
    return found


def build(folder, **changes):
    settings = {"seed": 7, "nouns": "words", **changes}
    return build_store(*write_files(folder), out=folder / "store", **settings)
