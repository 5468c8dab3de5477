"""One self-contained HTML file per run: everything that a run folder holds, for people."""
