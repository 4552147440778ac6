"""What models and results have in common with those of transformers: `save_pretrained` and `push_to_hub`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from onebasin.errors import BadOutput


class Shared:
    """The names by which other libraries save; `save` does the work."""

    def save(self, folder: str | Path, *, dtype: str | None = None) -> None:
        """Write a new folder."""
        raise NotImplementedError

    def save_pretrained(self, folder: str | Path, **options: Any) -> None:
        """The same as `save`."""
        self.save(folder, **options)

    def push_to_hub(
        self, repo_id: str, *, private: bool | None = None, token: str | None = None, revision: str | None = None,
        commit_message: str = "Upload by onebasin", **options: Any,
    ) -> str:  # fmt: skip
        """Upload what `save` writes, with these `options`, as a model of the Hub; it is made if it is not there.

        Returns the address of the commit.
        """
        import huggingface_hub
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError

        hub = huggingface_hub.HfApi(token=token)
        with tempfile.TemporaryDirectory(prefix="onebasin-") as place:
            folder = Path(place) / "model"
            self.save(folder, **options)
            try:
                name = hub.create_repo(repo_id, private=private, exist_ok=True).repo_id
                commit = hub.upload_folder(
                    repo_id=name, folder_path=folder, revision=revision, commit_message=commit_message
                )
            except (HfHubHTTPError, HFValidationError, OSError) as error:
                step = "check the name and the network, and run `hf auth login`"
                found = str(error).splitlines()[0]
                raise BadOutput(f"{repo_id} could not be uploaded", found=found, next_step=step) from error
        return str(commit)
