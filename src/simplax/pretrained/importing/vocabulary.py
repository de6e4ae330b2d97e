"""Facts of a checkpoint's tokenizer, read from the inert record of it: size, mask, and a file of our own format."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from simplax.pretrained.importing.records import Foreign


@dataclass(frozen=True)
class Vocabulary:
    """`size` without added tokens, `mask_id` if there is a mask, the tokenizer as JSON if it can be written."""

    size: int
    mask_id: int | None
    tokenizer: dict[str, Any] | None = None

    def text(self, categories: int) -> str | None:
        """tokenizer.json for a model of that many categories; what was added beyond them is left out."""
        if self.tokenizer is None:
            return None
        added = self.tokenizer.get("added_tokens")
        kept = [token for token in added or [] if isinstance(token, dict) and _below(token, categories)]
        return json.dumps({**self.tokenizer, "added_tokens": kept}, ensure_ascii=False)


def read_vocabulary(tokenizer: Any) -> Vocabulary | None:
    """The vocabulary of a pickled tokenizer of transformers; None if this one is of another kind."""
    state = tokenizer.state if isinstance(tokenizer, Foreign) else None
    if not isinstance(state, dict):
        return None
    stored = _fast(state.get("_tokenizer"))
    ids = _ids(stored["model"].get("vocab")) if stored is not None else _ids(state.get("vocab"))
    if not ids:
        return None
    mask = _content(state.get("_mask_token"))
    known = dict(ids)
    for token in (stored or {}).get("added_tokens") or []:
        if isinstance(token, dict) and isinstance(token.get("content"), str) and type(token.get("id")) is int:
            known.setdefault(token["content"], token["id"])
    written = stored if stored is not None else _wordpiece(ids, state)
    return Vocabulary(len(ids), known.get(mask) if mask is not None else None, written)


def _below(token: dict[str, Any], categories: int) -> bool:
    return type(token.get("id")) is int and token["id"] < categories


def _fast(record: Any) -> dict[str, Any] | None:
    """The JSON that a tokenizer of the tokenizers library is pickled as."""
    if not isinstance(record, Foreign) or not isinstance(record.state, bytes):
        return None
    try:
        data = json.loads(record.state)
    except (ValueError, RecursionError):
        return None
    good = isinstance(data, dict) and isinstance(data.get("model"), dict)
    return data if good else None


def _ids(vocabulary: Any) -> dict[str, int]:
    if not isinstance(vocabulary, dict):
        return {}
    good = all(isinstance(word, str) and type(number) is int for word, number in vocabulary.items())
    return dict(vocabulary) if good else {}


def _content(token: Any) -> str | None:
    """A special token is a text or a record with its content."""
    if isinstance(token, Foreign):
        token = token.state.get("content") if isinstance(token.state, dict) else None
    return token if isinstance(token, str) else None


def _wordpiece(ids: dict[str, int], state: dict[Any, Any]) -> dict[str, Any] | None:
    """BERT's tokenizer, which is pickled as Python objects, in the form of the tokenizers library."""
    basic = state.get("basic_tokenizer")
    options = basic.state if isinstance(basic, Foreign) and isinstance(basic.state, dict) else None
    if options is None or "wordpiece_tokenizer" not in state:
        return None
    special = [_content(state.get(f"_{kind}_token")) for kind in ("pad", "unk", "cls", "sep", "mask")]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [
        {"id": ids[word], "content": word, **flags} for word in special if word is not None and word in ids
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": options.get("tokenize_chinese_chars") is True,
            "strip_accents": options.get("strip_accents"),
            "lowercase": options.get("do_lower_case") is True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": _content(state.get("_unk_token")) or "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": ids,
        },
    }
