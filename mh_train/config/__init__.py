"""Configuration: one dataclass schema, composed by Hydra, validated before anything heavy is imported."""

from mh_train.config.compose import ConfigError, compose, expand_sweep, load, to_yaml
from mh_train.config.schema import RunConfig

__all__ = ["ConfigError", "RunConfig", "compose", "expand_sweep", "load", "to_yaml"]
