"""Push a run's final model, card included, to the Hugging Face hub.

Run: `mh-train grpo ... --push-to-hub OWNER/NAME` (or `hub=` in the configuration); needs `hf auth login`.
"""

from __future__ import annotations

import os
from pathlib import Path

from mh_train.config import ConfigError
from mh_train.run.progress import say


def push(model: Path, name: str) -> str:
    """Upload the folder to the (private, new or existing) repository `name`; its address.

    Raises `ConfigError` with what to do when there is no model, no network or no right to write."""
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled

    by_hand = f"upload it later: hf upload {name} {model}"
    if not (model / "config.json").is_file():
        raise ConfigError(f"There is no model in {model} to push; run `mh-train grpo` first.")
    if os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0"):
        raise ConfigError(f"HF_HUB_OFFLINE forbids pushing {model}; {by_hand}.")
    api = HfApi()
    try:
        api.create_repo(name, private=True, exist_ok=True)
        address = api.upload_folder(repo_id=name, folder_path=model, commit_message="Model and card")
    except (HfHubHTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled, httpx.HTTPError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"{model} is finished but could not be pushed to {name} ({reason}); log in with `hf auth login`, check the "
            f"name and the network, or {by_hand}."
        ) from error
    say(f"hub      {address}")
    return str(address)
