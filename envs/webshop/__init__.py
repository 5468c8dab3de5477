"""WebShop: the real shopping environment, exact to the original, from one memory-mapped store that all processes share.

`build_store` reads the official files (`envs.webshop.build`), `WebShopEnv` plays (`envs.webshop.env`), `split_overlap`
reports what splits share, `envs.webshop.mini` makes a small synthetic shop for a CPU.
"""
