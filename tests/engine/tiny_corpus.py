"""The text that the tests' small tokenizer is built from."""

PHRASES = ["you arrive at", ". on the", ", you see a", ", and a", "you see a", "nothing happens.", "go to", ", go to"]
CORPUS = [
    "You arrive at cabinet 1. On the cabinet 1, you see a bread 1, and a mug 2.",
    "<think> find bread </think> <action> go to cabinet 1 </action>",
    '{"memories":[{"situation":"room with toaster","memory":"bread was in drawer 1"}]}',
    "nothing happens. task put some bread in fridge act or ask",
]
