"""mh_train: train LLM agents that reconstruct memory instead of replaying it (MemHarness + MemGuard)."""

__version__ = "0.1.0"
