"""Text environments behind one contract, independent of `mh_train` and of torch. Start at `envs.base`."""
