"""The run folder: everything that is shown is first written here."""
