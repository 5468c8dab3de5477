"""ALFWorld: the real text engine with its parsing and translation done once (`env`), and a maker of small games
(`mini`)."""
