"""A causal language model of transformers, run in this process: for evaluations, never for serving."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.install_hints import missing_extra
from codequarry.serving.ranking.listwise import Chat


def local_chat(model: str, *, revision: str = "", device: str = "") -> Chat:
    """Load a model by its id or folder for chats, decoding greedily.

    On a GPU it runs in half precision, otherwise in float32. A model without a template for chats gets messages one
    below the other.

    Args:
        model: Id on a hub, or a folder.
        revision: Pinned revision of a model on a hub.
        device: Device as torch names it; the GPU by default, when there is one.

    Returns:
        A function that answers messages.

    Raises:
        MissingExtraError: The extra ``transformers`` is not installed.
        UnavailableError: There is no such model, or it cannot be fetched.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ModuleNotFoundError as error:
        raise missing_extra("a language model run here", "transformers", missing=error.name) from None

    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    where: dict[str, Any] = {"local_files_only": True} if Path(model).is_dir() else {"revision": revision or None}
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(model, **where)
        dtype = torch.float16 if place.startswith("cuda") else torch.float32
        loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype, **where)
    except (OSError, ValueError) as error:
        raise UnavailableError(
            f"the language model {model} cannot be loaded: {str(error).splitlines()[0]}",
            suggestion="give the folder of a model, or fetch it where a hub can be reached: `codequarry models fetch`",
        ) from error
    loaded.to(place).eval()
    end = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id

    def answer_messages(messages: list[dict[str, str]], max_tokens: int) -> str:
        if tokenizer.chat_template:
            text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        else:
            text = "\n\n".join(one["content"] for one in messages) + "\n"
        ids = tokenizer(text, return_tensors="pt", add_special_tokens=not tokenizer.chat_template)["input_ids"].to(
            place
        )
        with torch.inference_mode():
            found = loaded.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_tokens, do_sample=False,
                pad_token_id=end,
            )  # fmt: skip
        return tokenizer.decode(found[0, ids.shape[1] :], skip_special_tokens=True)

    return answer_messages
