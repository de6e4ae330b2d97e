"""Models on the Hugging Face hub: fetched into its cache, pushed from a directory. Files of ours only, never code."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simplax.errors import UserError
from simplax.pretrained.card import CARD, write_card
from simplax.pretrained.stored import CONFIG, MANIFEST, WEIGHTS

if TYPE_CHECKING:
    from simplax.pretrained.model import Model

FILES = (CONFIG, WEIGHTS, MANIFEST, "tokenizer.json", CARD)
"""All that is read or written there: a repository may hold other files, which are not fetched."""

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def is_name(text: str) -> bool:
    """Whether this can only be a model of the hub: `org/name`, and nothing here is called `org`."""
    return (
        _NAME.fullmatch(text) is not None and not Path(text).parent.exists() and not text.startswith("runs/")
    )


def download(name: str, revision: str | None = None) -> Path:
    """The directory of a model in the hub's cache, fetched if it is not there; without a network the cached one."""
    library = _library()
    with _told(f"the model {name}"):
        folder = Path(
            library.snapshot_download(
                name, revision=revision, allow_patterns=list(FILES), endpoint=_endpoint()
            )
        )
    if not (folder / CONFIG).is_file() or not (folder / WEIGHTS).is_file():
        raise UserError(
            f"{name} holds no model of simplax: it has no {CONFIG} with {WEIGHTS}; for MDLM, UDLM and Duo see "
            "`simplax import`."
        )
    return folder


def push(
    model: Model,
    name: str,
    *,
    private: bool = False,
    licence: str | None = None,
    results: Sequence[Path] = (),
    message: str | None = None,
) -> str:
    """Write a model with its card into a repository, made if it is not there; where to see it."""
    if _NAME.fullmatch(name) is None:
        raise UserError(f"{name!r} is not a name of the hub: write ORGANISATION/NAME.")
    library = _library()
    with tempfile.TemporaryDirectory() as place:
        folder = model.save_pretrained(Path(place) / "model")
        write_card(model, folder, name, licence, results)
        api = library.HfApi(endpoint=_endpoint())
        with _told(f"the repository {name}"):
            api.create_repo(name, private=private, exist_ok=True)
            said = message or f"Upload {model.config.name} with simplax"
            info: Any = api.upload_folder(
                repo_id=name, folder_path=folder, commit_message=said, allow_patterns=list(FILES)
            )
    return str(info.commit_url)


def _library() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise UserError('models of the hub need huggingface_hub: pip install "simplax[hub]".') from error
    return huggingface_hub


def _endpoint() -> str | None:
    """Another hub than the public one, read at each request rather than when the library is imported."""
    return os.environ.get("HF_ENDPOINT")


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Everything the hub's library raises, as one sentence."""
    from huggingface_hub import errors

    try:
        yield
    except errors.GatedRepoError as error:
        raise UserError(
            f"{what} is gated: accept its terms on the hub and log in with `hf auth login`."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise UserError(f"{what} has no such revision: name a branch, a tag or a commit of it.") from error
    except errors.RepositoryNotFoundError as error:
        raise UserError(
            f"{what} is neither here nor on the hub, or it is private: check the name, or `hf auth login`."
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise UserError(
            f"{what} is not in the cache and the hub cannot be reached: try again later."
        ) from error
    except errors.HfHubHTTPError as error:
        status = getattr(getattr(error, "response", None), "status_code", "no")
        raise UserError(
            f"the hub refused {what} with status {status}: log in, or try again later."
        ) from error
    except (OSError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"{what} cannot be used: {reason[:200]}.".replace("..", ".")) from error
